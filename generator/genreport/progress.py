"""What a person sees while a round is recorded: one live line on a terminal, a line a level elsewhere."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from genreport.records import TEXT_KINDS, Request

REFRESH_HZ = 4


class Silent:
    """Shows nothing; the shape of every progress display. Work is in units of one's own, and adds up."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

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


class Progress(Silent):
    """Live progress on a terminal; on anything else each level's line when it is done."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._key: str | None = None
        self._live = Live(
            get_renderable=self._line, console=self._console, refresh_per_second=REFRESH_HZ, transient=True
        )
        self._ahead: dict[str, float] = {}
        # engine -> seconds and work of its finished levels
        self._seen: dict[str, tuple[float, float]] = {}

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

    def begin(self, work: Mapping[str, float]) -> None:
        self._ahead = dict(work)

    def dropped(self, work: Mapping[str, float]) -> None:
        for engine, part in work.items():
            self._pass(engine, part)

    def say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def level(self, key: str, engine: str, requests: int, work: float) -> None:
        self._key, self._engine, self._asked, self._work = key, engine, requests, work
        self._began = time.monotonic()
        self._done = self._failed = self._output = 0
        self._ttft_us: list[int] = []
        self._span_us: tuple[int, int] | None = None

    def request(self, request: Request) -> None:
        self._done += 1
        self._pass(self._engine, self._work / self._asked)
        self._failed += request.failure is not None
        self._output += (request.usage and request.usage.completion_tokens) or 0
        start_us, end_us = self._span_us or (request.due_us, request.end_us)
        self._span_us = min(start_us, request.due_us), max(end_us, request.end_us)
        if (first := first_text_us(request)) is not None:
            self._ttft_us.append(first)

    def done(self, remarks: list[str]) -> None:
        seconds, work = self._seen.get(self._engine, (0.0, 0.0))
        self._seen[self._engine] = seconds + time.monotonic() - self._began, work + self._work
        self.say("; ".join([self._line().plain, *remarks]))
        self._key = None

    def _pass(self, engine: str, work: float) -> None:
        self._ahead[engine] = max(0.0, self._ahead.get(engine, 0.0) - work)

    def _line(self) -> Text:
        if self._key is None:
            return Text("")
        start_us, end_us = self._span_us or (0, 0)
        rate = f"{self._output / (end_us - start_us) * 1e6:,.0f}" if end_us > start_us else "n/a"
        ttft = f"{statistics.median(self._ttft_us) / 1000:,.0f} ms" if self._ttft_us else "n/a"
        parts = [f"{self._done}/{self._asked}", f"{rate} tok/s", f"TTFT p50 {ttft}", f"{self._failed} failed"]
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


def first_text_us(request: Request) -> int | None:
    """Time from the request's start to its first event with text."""
    places = [place for place, kind in enumerate(request.kinds) if kind in TEXT_KINDS]
    return sum(request.gaps_us[: places[0] + 1]) if places else None
