"""A number and where it came from: the only thing a page may print.

A `Quantity` carries a formula *text* that the audit evaluates over its sources by a second path (`evaluate`), never by
calling the function that made the value. The formula's names are

- columns of the request rows it selects (`ttft_s`, `gap_s`, …, defined as text in `COLUMNS`),
- its inputs: alias -> id of another quantity, or a tuple of ids (then the name is an array),
- `line`, `field`, `sample`, `given` or `foreign`: what the source locates.

Seconds, tokens, bytes everywhere; rounding happens once, in the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from genreport.errors import GenreportError

MANIFEST_FORMAT = "genreport-provenance/1"

# What a formula may call a column of the request rows. Primitives, read from a record: `t0_s`, `due_s`, `end_s`,
# `text_s` (stamps of text events), `text_tokens` (at least 1 each), `choices_s`, `n` (the server's completion tokens, else
# the sum of `text_tokens` where the record has counts, else its `retokenized`), `prompt_n`, `asked_input`, `asked_output`,
# `sound`, `ok` (no failure, sent, a text event, sound), `warmup`, `index`, `seed`, `turn` (of a conversation, from 0);
# `resent`: its `retries` are above 0. `answer`: the first twelve hexadecimal digits of the SHA-256 of its text, as a number.
# `server_n` and `server_e2e_s`: its own count and duration, from llama.cpp's `timings` or vLLM's `metrics`, else none.
# `server_queue_s`, `server_prefill_s`, `server_decode_s`: the parts of that duration, from the same places.
# `sound`: no negative gap, no event after the request's end, and only numbers that a request can have: stamps and gaps
# within 10^12 µs; an event's tokens within 0 and 100,000, of all events together up to 1,000,000; asked and stated tokens
# within 0 and 10^12. Nothing else of a record with other numbers is read.
# A column with a list a row is flattened; a row whose value is none is left out of that column.
COLUMNS: dict[str, str] = {
    "ttft_s": "text_s[0] - t0_s",
    "first_choices_s": "choices_s[0] - t0_s",
    "e2el_s": "text_s[-1] - t0_s",
    "last_text_s": "text_s[-1]",
    "first_text_s": "text_s[0]",
    "text_end_s": "repeat(text_s[-1], count(text_s))",
    "tpot_s": "(text_s[-1] - text_s[0]) / (n - 1) if n > 1 else none",
    "gap_s": "diff(text_s)",
    "itl_s": "repeat(diff(text_s) / text_tokens[1:], text_tokens[1:])",
    "client_queue_s": "t0_s - due_s",
    "due_ttft_s": "text_s[0] - due_s",
    "due_e2el_s": "text_s[-1] - due_s",
    "short": "1 if n < asked_output else 0",
    "start_s": "t0_s",
    "max_gap_s": "max(diff(text_s)) if count(text_s) > 1 else none",
    "tpot_or_0_s": "(text_s[-1] - text_s[0]) / (n - 1) if n > 1 else 0",
    "first_event_multi": "1 if text_tokens[0] > 1 else 0",
    "tokens_differ": "1 if sum(text_tokens) != n else 0",
    "prompt_differs": "1 if prompt_n != asked_input else 0",
    "server_n_differs": "none if server_n == none else 1 if server_n != n else 0",
    "server_e2e_later": "none if server_e2e_s == none else 1 if server_e2e_s > text_s[-1] - t0_s + 0.001 else 0",
}
MEASURED = "ok and not warmup"


@dataclass(frozen=True, slots=True)
class Rows:
    """A selection of request records: files, a filter on primitives, how many rows it keeps, and the rows that decide.

    `picks` are the (file, line) pairs a reader should look at first: for a percentile the very records it
    interpolates, for a sum the first row.
    """

    files: tuple[str, ...]
    where: str
    count: int
    picks: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a text file and the pattern whose first group is the value (`number(line)` in the formula)."""

    file: str
    line: int
    pattern: str


@dataclass(frozen=True, slots=True)
class Lines:
    """All lines of a text file in a range that match a pattern: `matches` in the formula, first groups as numbers.

    A named group of the pattern is an array of that name.
    """

    file: str
    first: int
    last: int
    pattern: str
    count: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """A value in a JSON or YAML file by RFC 6901 pointer (`field` in the formula), and the line it stands on."""

    file: str
    pointer: str
    line: int


@dataclass(frozen=True, slots=True)
class Samples:
    """One series of a sampled file: `t_s` and `sample` in the formula; `lines`: those of the first and last sample."""

    file: str
    series: str
    lines: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """A count over the manifest itself (`tally` in the formula), e.g. of its figures; the audit counts again."""

    what: str


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the command line of the build (`given` in the formula): option, text, and the pattern of the value."""

    option: str
    text: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """A figure of another round in the same site (`foreign` in the formula), and the SHA-256 of that round's seal."""

    round: str
    figure: str
    seal: str


Source = Rows | Line | Lines | Pointer | Samples | Tally | Given | Foreign


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure: id, unrounded value in `unit`, sample count, formula text, inputs, sources and warnings.

    `value` is `None` with a `reason` where nothing was observed. A tuple is a curve (its points share the sources).
    """

    id: str
    value: float | tuple[float, ...] | None
    unit: str
    formula: str
    n: int | None = None
    inputs: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str | None = None

    @property
    def missing(self) -> bool:
        return self.value is None

    def input_ids(self) -> Iterator[str]:
        for given in self.inputs.values():
            yield from (given,) if isinstance(given, str) else given

    def files(self) -> set[str]:
        """Every file its own sources name."""
        own = (s for s in self.sources if not isinstance(s, Tally | Given | Foreign))
        return {f for s in own for f in (s.files if isinstance(s, Rows) else (s.file,))}


class Ledger:
    """All quantities of one round by id; an input must be entered before what is derived from it."""

    def __init__(self) -> None:
        self._entries: dict[str, Quantity] = {}

    def add(self, quantity: Quantity) -> Quantity:
        self._refuse(quantity)
        self._entries[quantity.id] = quantity
        return quantity

    def _refuse(self, q: Quantity) -> None:
        if q.id in self._entries:
            raise GenreportError(f"figure {q.id} entered twice")
        unknown = [i for i in q.input_ids() if i not in self._entries]
        if unknown:
            raise GenreportError(f"figure {q.id} names unknown inputs {unknown}")
        if q.value is None and not q.reason:
            raise GenreportError(f"figure {q.id} is missing without a reason")
        if q.value is not None and not all(math.isfinite(v) for v in values(q)):
            raise GenreportError(f"figure {q.id} is not finite")
        if q.value is not None and not (q.sources or q.inputs):
            raise GenreportError(f"figure {q.id} has no source")

    def __getitem__(self, id: str) -> Quantity:
        return self._entries[id]

    def __contains__(self, id: object) -> bool:
        return id in self._entries

    def get(self, id: str) -> Quantity | None:
        return self._entries.get(id)

    def value(self, id: str) -> Any:
        """A figure's value; `None` where it is missing or unknown."""
        found = self.get(id)
        return None if found is None else found.value

    def __iter__(self) -> Iterator[Quantity]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def manifest(self, round_name: str, files: dict[str, dict], used: Iterable[str] | None = None) -> dict:
        """The whole ledger as plain data, with the hash and line count of each file it cites."""
        ids = list(self._entries) if used is None else list(used)
        return {
            "format": MANIFEST_FORMAT,
            "round": round_name,
            "columns": COLUMNS,
            "files": files,
            "figures": [plain(self._entries[i]) for i in ids],
        }


def values(q: Quantity) -> tuple[float, ...]:
    """The value as a tuple, whatever its form."""
    return () if q.value is None else q.value if isinstance(q.value, tuple) else (q.value,)


def plain(q: Quantity) -> dict:
    """A figure as the manifest has it."""
    found = _fields(q) | {"sources": [{"type": type(s).__name__.lower(), **_fields(s)} for s in q.sources]}
    return {key: value for key, value in found.items() if value not in (None, (), [], {})} | {"value": q.value}


def _fields(of: Quantity | Source) -> dict:
    """Names and values, as they are: `asdict` would copy every point of every curve."""
    return {name: getattr(of, name) for name in of.__slots__}
