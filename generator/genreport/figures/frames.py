"""Records as plain arrays: one table of requests a level, its text events flattened, no provenance in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np
import pandas as pd

from genreport.provenance import MEASURED, Rows
from genreport.records import CHOICE_KINDS, LONGEST_US, TEXT_KINDS, Request


@dataclass(frozen=True)
class Column:
    """Values of one column of `provenance.COLUMNS` and, for each, the position of its row in the table."""

    values: np.ndarray
    row: np.ndarray

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Table:
    """Requests of one or more repeats.

    `rows`: a line a request: `file` (number in `files`), `line`, `index`, `warmup`, `resent`, `possible` (numbers that a
    request can have), `sound`, `ok`, `failure`, `t0_s`, `due_s`, `n`, `prompt_n`, `turn` (-1 outside a conversation),
    `asked_input`, `asked_output`, `counted` (has per-event counts), `usage` (the server stated n), `first_choices_s` (a
    stamp), `server_queue_s`, `server_prefill_s`, `server_decode_s` (as the server states them). `text_s`, `text_row`,
    `text_tokens`: the text events of all rows in order.
    """

    files: tuple[str, ...]
    rows: pd.DataFrame
    text_s: np.ndarray
    text_row: np.ndarray
    text_tokens: np.ndarray

    @cached_property
    def measured(self) -> Table:
        """The requests that count: completed, sound, no warm-up."""
        return self.only(self.rows["ok"].to_numpy() & ~self.rows["warmup"].to_numpy())

    def only(self, kept: np.ndarray) -> Table:
        """The rows of a mask with their events."""
        events = kept[self.text_row]
        place = np.cumsum(kept) - 1
        return replace(
            self,
            rows=self.rows[kept].reset_index(drop=True),
            text_s=self.text_s[events],
            text_row=place[self.text_row[events]],
            text_tokens=self.text_tokens[events],
        )

    def __len__(self) -> int:
        return len(self.rows)

    def source(self, picked: Iterable[int] = (), where: str = MEASURED) -> Rows:
        """Provenance of a figure over all rows of this table, with the places of the rows that decide it."""
        return Rows(self.files, where, len(self), tuple(dict.fromkeys(self.place(int(row)) for row in picked)))

    def place(self, row: int) -> tuple[str, int]:
        return self.files[self.rows["file"].iat[row]], int(self.rows["line"].iat[row])

    def _each(self, values: np.ndarray) -> Column:
        """A column with one value a row, without the rows that have none."""
        known = ~np.isnan(values)
        return Column(values[known], np.flatnonzero(known))

    @cached_property
    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        """Stamps of the first and last text event of each row (every measured row has one)."""
        counts = np.bincount(self.text_row, minlength=len(self))
        last = np.cumsum(counts) - 1
        return self.text_s[last - counts + 1], self.text_s[last]

    def _row(self, name: str) -> np.ndarray:
        return self.rows[name].to_numpy(dtype=float)

    @cached_property
    def ttft_s(self) -> Column:
        return self._each(self._edges[0] - self._row("t0_s"))

    @cached_property
    def e2el_s(self) -> Column:
        return self._each(self._edges[1] - self._row("t0_s"))

    @cached_property
    def last_text_s(self) -> Column:
        return self._each(self._edges[1])

    @cached_property
    def start_s(self) -> Column:
        return self._each(self._row("t0_s"))

    @cached_property
    def tpot_s(self) -> Column:
        n = self._row("n")
        many = n > 1
        return self._each(np.where(many, (self._edges[1] - self._edges[0]) / np.where(many, n - 1, 1), np.nan))

    @cached_property
    def first_choices_s(self) -> Column:
        return self._each(self._row("first_choices_s") - self._row("t0_s"))

    @cached_property
    def client_queue_s(self) -> Column:
        return self._each(self._row("t0_s") - self._row("due_s"))

    @cached_property
    def due_ttft_s(self) -> Column:
        return self._each(self._edges[0] - self._row("due_s"))

    @cached_property
    def due_e2el_s(self) -> Column:
        return self._each(self._edges[1] - self._row("due_s"))

    @cached_property
    def server_queue_s(self) -> Column:
        return self._each(self._row("server_queue_s"))

    @cached_property
    def server_prefill_s(self) -> Column:
        return self._each(self._row("server_prefill_s"))

    @cached_property
    def server_decode_s(self) -> Column:
        return self._each(self._row("server_decode_s"))

    @cached_property
    def gap_s(self) -> Column:
        """Time between successive text events of one request."""
        later = self.text_row[1:] == self.text_row[:-1]
        return Column(np.diff(self.text_s)[later], self.text_row[1:][later])

    @cached_property
    def gap_tokens(self) -> np.ndarray:
        """Tokens of the event that ends each gap."""
        return self.text_tokens[1:][self.text_row[1:] == self.text_row[:-1]]

    @cached_property
    def itl_s(self) -> Column:
        tokens = self.gap_tokens
        return Column(np.repeat(self.gap_s.values / tokens, tokens), np.repeat(self.gap_s.row, tokens))

    @cached_property
    def max_gap_s(self) -> Column:
        longest = np.full(len(self), -np.inf)
        np.maximum.at(longest, self.gap_s.row, self.gap_s.values)
        return self._each(np.where(np.isinf(longest), np.nan, longest))

    @cached_property
    def first_tokens(self) -> np.ndarray:
        """Tokens of the first text event of each row (every measured row has one)."""
        return self.text_tokens[np.searchsorted(self.text_row, np.arange(len(self)))]

    @cached_property
    def event_tokens(self) -> np.ndarray:
        """Sum of the per-event counts of each row."""
        return np.bincount(self.text_row, weights=self.text_tokens, minlength=len(self))


def pooled(tables: Sequence[Table]) -> Table:
    """One table of several, rows in order, files renumbered."""
    files = tuple(file for table in tables for file in table.files)
    before = np.cumsum([0, *(len(table) for table in tables)])
    rows = [table.rows.assign(file=table.rows["file"] + k) for k, table in enumerate(tables)]
    return Table(
        files,
        pd.concat(rows, ignore_index=True),
        np.concatenate([table.text_s for table in tables]),
        np.concatenate([table.text_row + start for table, start in zip(tables, before, strict=False)]),
        np.concatenate([table.text_tokens for table in tables]),
    )


def table(file: str, requests: Sequence[Request]) -> Table:
    """One repeat's records as arrays; record k stands on line k + 1."""
    possible = np.array([r.possible for r in requests], dtype=bool)
    requests = [r if sane else r.model_copy(update=BLANK) for r, sane in zip(requests, possible, strict=True)]
    counts = np.array([len(r.kinds) for r in requests], dtype=np.int64)
    row = np.repeat(np.arange(len(requests)), counts)
    gaps = _integers(chain.from_iterable(r.gaps_us for r in requests))
    kinds = np.frombuffer("".join(r.kinds for r in requests).encode("ascii"), dtype="S1")
    t0 = _integers(0 if r.t0_us is None else r.t0_us for r in requests)
    end = _integers(r.end_us for r in requests)
    run = np.concatenate([[0], np.cumsum(gaps)])
    first = np.cumsum(counts) - counts
    stamps = run[1:] - run[first][row] + t0[row]
    text, choice = (np.isin(kinds, [k.encode() for k in these]) for these in (TEXT_KINDS, CHOICE_KINDS))
    tokens = _integers(chain.from_iterable(r.tokens or [1] * len(r.kinds) for r in requests))
    tokens = np.maximum(tokens[text], 1)
    negative = np.bincount(row[gaps < 0], minlength=len(requests)) > 0
    sent = np.array([r.t0_us is not None for r in requests], dtype=bool)
    inside = t0 + run[first + counts] - run[first] <= end
    sound = possible & ~negative & (inside | ~sent | (counts == 0))
    failed = np.array([r.failure is not None for r in requests], dtype=bool)
    has_text = np.bincount(row[text], minlength=len(requests)) > 0
    summed = np.bincount(row[text], weights=tokens, minlength=len(requests))
    rows = pd.DataFrame(
        {
            "file": 0,
            "line": np.arange(1, len(requests) + 1),
            "index": [r.index for r in requests],
            "warmup": np.array([r.warmup for r in requests], dtype=bool),
            "resent": np.array([r.retries > 0 for r in requests], dtype=bool),
            "failure": [r.failure.kind if r.failure else None for r in requests],
            "possible": possible,
            "sound": sound,
            "ok": sound & sent & has_text & ~failed,
            "t0_s": np.where(sent, t0 / 1e6, np.nan),
            "due_s": _integers(r.due_us for r in requests) / 1e6,
            "n": [_n(r, total) for r, total in zip(requests, summed, strict=True)],
            "prompt_n": [_known(r.usage.prompt_tokens if r.usage else None) for r in requests],
            "turn": [-1 if r.turn is None else r.turn for r in requests],
            "asked_input": [r.asked_input for r in requests],
            "asked_output": [r.asked_output for r in requests],
            "counted": np.array([r.tokens is not None for r in requests], dtype=bool),
            "usage": np.array([r.usage is not None and r.usage.completion_tokens is not None for r in requests], bool),
            "server_n": [_stated(_said(r, "timings").get("predicted_n"), LONGEST_US) for r in requests],
            "server_e2e_s": [_server_e2e(r) for r in requests],
            **_server_times(requests),
            "first_choices_s": _first(stamps[choice] / 1e6, row[choice], len(requests)),
        }
    )
    return Table((file,), rows, stamps[text] / 1e6, row[text], tokens)


# what stands for a record with impossible numbers: it is in no figure, but keeps its line
BLANK = {"due_us": 0, "t0_us": None, "end_us": 0, "gaps_us": [], "kinds": "", "tokens": None, "usage": None,
         "retokenized": None, "asked_input": 1, "asked_output": 1}  # fmt: skip


def _integers(values: Iterable[int]) -> np.ndarray:
    return np.array(list(values), dtype=np.int64)


def _n(request: Request, counted: float) -> float:
    """Completion tokens: the server's word, else the sum of per-event counts, else of the text counted again, else unknown."""
    stated = request.usage.completion_tokens if request.usage else None
    if stated is not None:
        return stated
    return counted if request.tokens is not None else _known(request.retokenized)


def _said(request: Request, key: str) -> dict:
    """What a server says of a request it served: llama.cpp's `timings`, vLLM's `metrics`."""
    found = request.server.get(key)
    return found if isinstance(found, dict) else {}


def _server_e2e(request: Request) -> float:
    """The server's own duration of a request: prefill and decode (llama.cpp), or to the last token (vLLM)."""
    return sum(_parts_ms(request)[1:]) / 1e3


def _server_times(requests: Sequence[Request]) -> dict[str, np.ndarray]:
    """The parts of its time that the server states of each request, in seconds, nan where it does not."""
    times = np.array([_parts_ms(r) for r in requests], dtype=float).reshape(-1, 3) / 1e3
    return dict(zip(("server_queue_s", "server_prefill_s", "server_decode_s"), times.T, strict=True))


def _parts_ms(request: Request) -> tuple[float, float, float]:
    """Queue, prefill and decode; llama.cpp states the last two, vLLM all of them where it is told to."""
    timings, metrics = _said(request, "timings"), _said(request, "metrics")
    names = ("prompt_ms", "predicted_ms") if timings else ("time_to_first_token_ms", "generation_time_ms")
    found = (metrics.get("queue_time_ms"), *((timings or metrics).get(name) for name in names))
    queue, prefill, decode = (_stated(ms, LONGEST_US / 1e3) for ms in found)
    return queue, prefill, decode


def _stated(value: object, most: float) -> float:
    """A number of a server's own words; nan where it is none, or none that a request can have."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) < most else np.nan


def _known(value: float | None) -> float:
    return np.nan if value is None else value


def _first(values: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    found = np.full(rows, np.nan)
    found[row[::-1]] = values[::-1]  # the earliest is written last
    return found
