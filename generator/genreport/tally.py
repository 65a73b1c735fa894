"""What requests come to while they are recorded, by the definitions of docs/method.md and with no code of the site."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise, repeat

from genreport.records import TEXT_KINDS, Request

LATENCIES = ("ttft", "tpot", "itl", "e2el")


class Tally:
    """Counts and latencies (seconds) of a level, over all repeats it was told of; `begin` opens each of them.

    With `gaps=False` it keeps a few numbers a request and none a token, and knows no ITL; with `since_due=True` a request
    begins when it was due and not when it was sent.
    """

    def __init__(self, *, gaps: bool = True, since_due: bool = False) -> None:
        self.completed = self.failed = 0
        self._gaps, self._since_due = gaps, since_due
        # tokens of the completed requests; `None` once one of them did not count its own
        self.tokens: int | None = 0
        self.latencies = {name: array("d") for name in LATENCIES}
        self._windows: list[tuple[int, int]] = []
        self._open: tuple[int, int] | None = None

    def begin(self) -> None:
        """A repeat begins: it has a window of its own."""
        self._windows += [self._open] if self._open else []
        self._open = None

    def add(self, request: Request) -> None:
        """A measured request is done; a warm-up's record does not belong here."""
        events = list(text_events(request))
        if request.failure is not None or not events or not _sound(request):
            self.failed += 1
            return
        self.completed += 1
        begun_us = request.due_us if self._since_due else request.t0_us or 0
        start_us, (first_us, _), (last_us, _) = begun_us, events[0], events[-1]
        since, until = self._open or (start_us, last_us)
        self._open = min(since, start_us), max(until, last_us)
        n = _tokens(request, events)
        self.tokens = None if n is None or self.tokens is None else self.tokens + n
        self.latencies["ttft"].append((first_us - start_us) / 1e6)
        self.latencies["e2el"].append((last_us - start_us) / 1e6)
        if n is not None and n > 1:
            self.latencies["tpot"].append((last_us - first_us) / 1e6 / (n - 1))
        if self._gaps:
            self.latencies["itl"].extend(_itl(events))

    def join(self, other: Tally) -> None:
        """Adds what another tally saw, its repeats apart from these."""
        self.completed, self.failed = self.completed + other.completed, self.failed + other.failed
        self.tokens = None if self.tokens is None or other.tokens is None else self.tokens + other.tokens
        self._windows += other._all_windows()
        for name, values in other.latencies.items():
            self.latencies[name].extend(values)

    @property
    def window_s(self) -> float:
        """From the first start to the last text, summed over repeats."""
        return sum(until - since for since, until in self._all_windows()) / 1e6

    def _all_windows(self) -> list[tuple[int, int]]:
        return [*self._windows, *([self._open] if self._open else [])]

    @property
    def output_throughput(self) -> float | None:
        """Tokens a second; `None` where nothing completed or a server counts no tokens."""
        return self.tokens / self.window_s if self.tokens is not None and self.window_s else None

    @property
    def request_throughput(self) -> float | None:
        return self.completed / self.window_s if self.window_s else None

    def latency(self, name: str, statistic: str) -> float | None:
        """A statistic (`mean`, `p50`, …) of one of `LATENCIES`, in seconds; `None` without a sample."""
        values = self.latencies[name]
        if not values or (name == "tpot" and self.tokens is None):
            return None
        return sum(values) / len(values) if statistic == "mean" else percentile(values, float(statistic[1:]))


def text_events(request: Request) -> Iterator[tuple[int, int]]:
    """Stamp (µs) and tokens, at least one, of each event with text."""
    if request.t0_us is None:
        return
    tokens = request.tokens or [1] * len(request.kinds)
    for stamp, kind, count in zip(accumulate(request.gaps_us, initial=request.t0_us), " " + request.kinds,
                                  [0, *tokens], strict=True):  # fmt: skip
        if kind in TEXT_KINDS:
            yield stamp, max(count, 1)


def percentile(values: Sequence[float], q: float) -> float:
    """Linear between the two nearest ranks."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _sound(request: Request) -> bool:
    """As the site's figures take it: no stamp falls or lies behind the end, and no number is one that it cannot have."""
    ordered = min(request.gaps_us, default=0) >= 0
    return request.possible and ordered and (request.t0_us or 0) + sum(request.gaps_us) <= request.end_us


def _tokens(request: Request, events: Sequence[tuple[int, int]]) -> int | None:
    """The server's word, else the sum of the counts of its events, else its tokenizer's count of the text, else unknown."""
    stated = request.usage.completion_tokens if request.usage else None
    if stated is not None:
        return stated
    return sum(count for _, count in events) if request.tokens is not None else request.retokenized


def _itl(events: Sequence[tuple[int, int]]) -> Iterator[float]:
    """A gap for each token: those of one event share the time since the event before."""
    for (before, _), (stamp, count) in pairwise(events):
        yield from repeat((stamp - before) / 1e6 / count, count)
