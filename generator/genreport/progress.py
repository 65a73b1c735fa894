"""What a person sees while a round is recorded: one live line on a terminal, a line a level elsewhere."""

from __future__ import annotations

import statistics
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from genreport.records import TEXT_KINDS, Request

REFRESH_HZ = 4


class Silent:
    """Shows nothing; the shape of every progress display."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, tokens: int) -> None:
        """The whole run's work ahead, in prompt and output tokens."""

    def dropped(self, tokens: int) -> None:
        """Work ahead that will not be done."""

    def say(self, line: str) -> None:
        """A line that stays."""

    def level(self, key: str, requests: int, tokens: int) -> None:
        """A repeat of a level begins: so many measured requests of so many prompt and output tokens each."""

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
        self._ahead = self._behind = 0
        self._began = time.monotonic()

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

    def begin(self, tokens: int) -> None:
        self._ahead, self._began = tokens, time.monotonic()

    def dropped(self, tokens: int) -> None:
        self._ahead -= tokens

    def say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def level(self, key: str, requests: int, tokens: int) -> None:
        self._key, self._asked, self._tokens = key, requests, tokens
        self._done = self._failed = self._output = 0
        self._ttft_us: list[int] = []
        self._span_us: tuple[int, int] | None = None

    def request(self, request: Request) -> None:
        self._done += 1
        self._behind += self._tokens
        self._failed += request.failure is not None
        self._output += (request.usage and request.usage.completion_tokens) or 0
        start_us, end_us = self._span_us or (request.due_us, request.end_us)
        self._span_us = min(start_us, request.due_us), max(end_us, request.end_us)
        if (first := first_text_us(request)) is not None:
            self._ttft_us.append(first)

    def done(self, remarks: list[str]) -> None:
        self.say("; ".join([self._line().plain, *remarks]))
        self._key = None

    def _line(self) -> Text:
        if self._key is None:
            return Text("")
        start_us, end_us = self._span_us or (0, 0)
        rate = f"{self._output / (end_us - start_us) * 1e6:,.0f}" if end_us > start_us else "n/a"
        ttft = f"{statistics.median(self._ttft_us) / 1000:,.0f} ms" if self._ttft_us else "n/a"
        parts = [f"{self._done}/{self._asked}", f"{rate} tok/s", f"TTFT p50 {ttft}", f"{self._failed} failed"]
        return Text(f"{self._key}  " + " · ".join([*parts, self._left()]))

    def _left(self) -> str:
        """Time left, by the tokens behind and ahead."""
        if not self._behind:
            return "time left n/a"
        seconds = int((time.monotonic() - self._began) / self._behind * (self._ahead - self._behind))
        return f"{seconds // 60}:{seconds % 60:02d} left"


def first_text_us(request: Request) -> int | None:
    """Time from the request's start to its first event with text."""
    places = [place for place, kind in enumerate(request.kinds) if kind in TEXT_KINDS]
    return sum(request.gaps_us[: places[0] + 1]) if places else None
