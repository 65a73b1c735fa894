"""What a person or a pipeline sees while a round is recorded: a live table, a line a level, or a JSON object a line."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from genreport.errors import printable
from genreport.records import Request
from genreport.tally import Tally, percentile, text_events

REFRESH_HZ = 4
# requests behind the percentiles of a level that is still running: sorting all of them would delay the client
RECENT = 512


class Silent:
    """Shows nothing; the shape of every progress display. Work is in units of one's own, and adds up."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def started(self, round: str, planned: int, ahead: int) -> None:
        """The round is begun, or gone on with: so many repeats planned, so many still to be measured."""

    def begin(self, work: Mapping[str, float]) -> None:
        """The whole run's work ahead, by engine."""

    def dropped(self, work: Mapping[str, float]) -> None:
        """Work ahead that will not be done, by engine."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def level(self, key: str, engine: str, requests: int, work: float) -> None:
        """A repeat of a level begins: so many measured requests, so much work all together."""

    def request(self, request: Request) -> None:
        """A measured request is done."""

    def done(self, remarks: list[str]) -> None:
        """The repeat is sealed."""

    def broken(self, level: str, sentence: str) -> None:
        """A level (`test/engine/level`) does not meet a condition of its plan."""

    def sealed(self, round: str, planned: int, measured: int) -> None:
        """Everything is on disk and sealed."""


class Quiet(Silent):
    """Only conditions that are not met, on stderr."""

    def broken(self, level: str, sentence: str) -> None:
        print(f"{level}: {sentence}", file=sys.stderr)


@dataclass
class Row:
    """What is known of a level: its finished repeats together, as shown."""

    repeat: str = ""
    tally: Tally = field(default_factory=lambda: Tally(gaps=False))
    cells: list[str] = field(default_factory=list)


def cells(tally: Tally, ttft_s: Sequence[float]) -> list[str]:
    """Throughput, TTFT p50 and p99, failed requests; "n/a" before the first answer."""
    rate = tally.output_throughput
    waits = [f"{percentile(ttft_s, q) * 1000:,.0f} ms" if len(ttft_s) else "n/a" for q in (50, 99)]
    return ["n/a" if rate is None else f"{rate:,.0f}", *waits, f"{tally.failed}"]


def around(levels: Sequence[str], running: str, room: int) -> Sequence[str]:
    """As many of the levels as there is room for, the one at work among them."""
    at = levels.index(running) if running in levels else len(levels) - 1
    first = min(max(0, at - room // 2), max(0, len(levels) - room))
    return levels[first : first + max(1, room)]


class Progress(Silent):
    """A live table on a terminal, a row a level of the engine at work; on anything else each repeat's line when done."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._key: str | None = None
        self._ahead: dict[str, float] = {}
        # engine -> seconds and work of its finished levels
        self._seen: dict[str, tuple[float, float]] = {}
        # level -> its row, for the engine at work
        self._rows: dict[str, Row] = {}
        self._engine = ""
        self._counts = [0, 0]
        self._live = Live(
            get_renderable=self._table, console=self._console, refresh_per_second=REFRESH_HZ, transient=True
        )

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._key = None
        if self._console.is_terminal:
            self._live.stop()
            self._keep()

    def started(self, round: str, planned: int, ahead: int) -> None:
        self._counts = [planned - ahead, planned]

    def begin(self, work: Mapping[str, float]) -> None:
        self._ahead = dict(work)

    def dropped(self, work: Mapping[str, float]) -> None:
        for engine, part in work.items():
            self._pass(engine, part)

    def say(self, line: str) -> None:
        self._console.print(Text(printable(line, keep="\n\t")), soft_wrap=True)

    def level(self, key: str, engine: str, requests: int, work: float) -> None:
        if engine != self._engine:
            self._keep()
        self._engine, self._asked, self._work = engine, requests, work
        self._began = time.monotonic()
        self._done, self._tally = 0, Tally(gaps=False)
        self._recent: deque[float] = deque(maxlen=RECENT)
        level, _, repeat = key.rpartition("/")
        self._rows.setdefault(level, Row()).repeat = repeat
        self._key = key  # last: from here on another thread shows the rest

    def request(self, request: Request) -> None:
        self._done += 1
        self._pass(self._engine, self._work / self._asked)
        self._tally.add(request)
        if request.failure is None and (first := next(text_events(request), None)):
            self._recent.append((first[0] - (request.t0_us or 0)) / 1e6)

    def done(self, remarks: list[str]) -> None:
        seconds, work = self._seen.get(self._engine, (0.0, 0.0))
        self._seen[self._engine] = seconds + time.monotonic() - self._began, work + self._work
        self._counts[0] += 1
        key, row = self._key or "", self._rows[(self._key or "").rpartition("/")[0]]
        row.tally.join(self._tally)
        row.cells = cells(row.tally, row.tally.latencies["ttft"])
        if not self._console.is_terminal:
            self.say("; ".join([self._line().plain, *remarks]))
        elif remarks:
            self.say("; ".join([key, *remarks]))
        self._key = None

    def broken(self, level: str, sentence: str) -> None:
        self.say(f"{level}: {sentence}")

    def sealed(self, round: str, planned: int, measured: int) -> None:
        self.say(
            f"{round}: sealed, {measured} of {planned} repeats" + (f"; genreport build {round}" if measured else "")
        )

    def _keep(self) -> None:
        """The finished rows of an engine stay on the terminal, above what comes."""
        if self._console.is_terminal and any(row.cells for row in self._rows.values()):
            self._console.print(self._table(final=True))
        self._rows = {}

    def _pass(self, engine: str, work: float) -> None:
        self._ahead[engine] = max(0.0, self._ahead.get(engine, 0.0) - work)

    def _table(self, *, final: bool = False) -> Table:
        running = (self._key or "").rpartition("/")[0]
        told = f"{self._counts[0]} of {self._counts[1]} repeats · {self._left()} left" if self._key else None
        table = Table(box=None, pad_edge=False, caption=None if final else told, caption_justify="left")
        table.add_column("level", overflow="fold")
        for name in ("repeat", "requests", "tok/s", "TTFT p50", "TTFT p99", "failed"):
            table.add_column(name, justify="right", no_wrap=True)
        rows = self._rows
        for level in list(rows) if final else around(list(rows), running, self._console.height - 4):
            row = rows[level]
            if level == running:
                values = [f"{self._done}/{self._asked}", *cells(self._tally, list(self._recent))]
                table.add_row(Text(f"▸ {level}"), row.repeat, *values, style="bold")
            else:
                table.add_row(Text(f"  {level}"), row.repeat, f"{row.tally.completed + row.tally.failed}", *row.cells)
        return table

    def _line(self) -> Text:
        if self._key is None:
            return Text("")
        rate, ttft, _, failed = cells(self._tally, self._tally.latencies["ttft"])
        parts = [f"{self._done}/{self._asked}", f"{rate} tok/s", f"TTFT p50 {ttft}", f"{failed} failed"]
        return Text(f"{self._key}  " + " · ".join([*parts, f"{self._left()} left"]))

    def _left(self) -> str:
        """Time left at each engine's own pace; unknown until the engine at work has finished a level.

        Engines that have not begun are taken to be as fast as the others are together.
        """
        if self._engine not in self._seen:
            return "–"
        together = _pace(*(sum(part) for part in zip(*self._seen.values(), strict=True)))
        paces = {engine: _pace(*seen) for engine, seen in self._seen.items()}
        seconds = int(sum(work * paces.get(engine, together) for engine, work in self._ahead.items()))
        return f"{seconds // 60}:{seconds % 60:02d}"


def _pace(seconds: float, work: float) -> float:
    return seconds / work if work else 0.0


class JsonLines(Silent):
    """One JSON object a line for a pipeline, written when it happens; seconds and tokens a second, `null` = not known."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout

    def started(self, round: str, planned: int, ahead: int) -> None:
        self._write("started", round=round, planned=planned, ahead=ahead)

    def say(self, line: str) -> None:
        self._write("said", text=line)

    def level(self, key: str, engine: str, requests: int, work: float) -> None:
        self._key, self._asked, self._tally = key, requests, Tally(gaps=False)

    def request(self, request: Request) -> None:
        self._tally.add(request)

    def done(self, remarks: list[str]) -> None:
        self._write("level", level=self._key, requests=self._asked, **numbers(self._tally), remarks=remarks)

    def broken(self, level: str, sentence: str) -> None:
        self._write("condition", level=level, text=sentence)

    def sealed(self, round: str, planned: int, measured: int) -> None:
        self._write("sealed", round=round, planned=planned, measured=measured)

    def _write(self, event: str, **what: Any) -> None:
        self._out.write(json.dumps({"event": event, **what}, ensure_ascii=False) + "\n")
        self._out.flush()


def numbers(tally: Tally) -> dict[str, float | int | None]:
    """What a finished repeat came to, by the names of docs/method.md."""
    latencies = {
        f"{name}_{statistic}_s": tally.latency(name, statistic)
        for name in ("ttft", "tpot", "e2el")
        for statistic in ("p50", "p99")
    }
    return {
        "completed": tally.completed,
        "failed": tally.failed,
        "output_tokens": tally.tokens if tally.completed else None,
        "window_s": tally.window_s or None,
        "output_throughput": tally.output_throughput,
        "request_throughput": tally.request_throughput,
        **latencies,
    }
