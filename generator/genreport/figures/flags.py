"""What a reader must know before trusting a level: findings as data, worded by the templates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from genreport.figures.book import Book
from genreport.figures.layout import EngineView, LevelView

PREFIX_HITS = 0.01
FLIGHT = 0.9
LAG = 0.1
BUNCHED = 0.5  # of the gaps are 0: then the median gap is none
SENT_LATE = 0.1  # of the wait: a wait from the due time then tells of the client
CLIENT_LOAD = 0.8  # of the ceiling: past it the client may be what is measured
SPREAD_OF_ONE = 0.03


@dataclass(frozen=True)
class Flag:
    """A warning of one scope: its kind, the figures that show it, and what a sentence about it needs."""

    scope: str
    kind: str
    figures: tuple[str, ...]
    data: dict[str, float | str] = field(default_factory=dict)


def of_level(book: Book, level: LevelView, before: LevelView | None) -> Iterator[Flag]:
    """Flags of one level; `before` is the level below it in a concurrency sweep."""
    id = level.id
    if book.value(f"{id}.failed"):
        yield Flag(id, "failed", (f"{id}.failed", f"{id}.completed"))
    if book.value(f"{id}.retries"):
        yield Flag(id, "resent", (f"{id}.retries", f"{id}.completed"))
    if before is not None and (flag := _falls(book, id, before.id)):
        yield flag
    if book.value(f"{id}.short_outputs"):
        yield Flag(id, "short", (f"{id}.short_outputs", f"{id}.output_tokens_share"))
    if "tokens_retokenized" in book[f"{id}.output_tokens"].notes:
        yield Flag(id, "retokenized", (f"{id}.output_tokens",))
    # a conversation sends what it sent before, and waits while its user thinks
    talks = level.kind == "conversation"
    if not talks and (book.value(f"{id}.prefix_hit_share") or 0) > PREFIX_HITS:
        yield Flag(id, "prefix_cache", (f"{id}.prefix_hit_share",))
    if not talks and (book.value(f"{id}.in_flight_ratio") or 1) < FLIGHT:
        yield Flag(id, "in_flight", (f"{id}.in_flight_ratio", f"{id}.mean_in_flight", f"{id}.concurrency"))
    yield from _stamps(book, id)
    yield from _sent_late(book, level)
    if level.concurrency and (book.value(f"{id}.requests") or 0) < 2 * level.concurrency:
        yield Flag(id, "few_requests", (f"{id}.requests", f"{id}.concurrency"))
    if len({repeat.facts.launch for repeat in level.repeats}) > 1:
        yield Flag(id, "restarted", (), {"launches": ", ".join(repeat.facts.launch for repeat in level.repeats)})
    yield from _checks(book, id)


def _stamps(book: Book, id: str) -> Iterator[Flag]:
    """How far the times of single events can be trusted."""
    lag, itl = (book.value(f"{id}.{name}") for name in ("client_lag.p99", "itl.p50"))
    if lag is not None and itl is not None and lag > LAG * itl:
        yield Flag(id, "client_lag", (f"{id}.client_lag.p99", f"{id}.itl.p50"))
    if book.value(f"{id}.slept"):
        yield Flag(id, "slept", (f"{id}.slept",))
    if (book.value(f"{id}.client_load") or 0) > CLIENT_LOAD:
        yield Flag(id, "client_limit", (f"{id}.client_load", f"{id}.output_throughput", "machine.client_ceiling"))
    if book.value(f"{id}.tokens_per_event"):
        yield Flag(id, "several", (f"{id}.tokens_per_event", f"{id}.gap.p50"))
    if (book.value(f"{id}.coalesced_share") or 0) > BUNCHED:
        yield Flag(id, "coalesced", (f"{id}.coalesced_share", f"{id}.itl.p50"))


def _sent_late(book: Book, level: LevelView) -> Iterator[Flag]:
    """How far a schedule was kept; with a limit of requests in flight it is the plan that makes requests wait.

    What the first try of a request took that was sent again is not the client's: such requests do not count.
    """
    arrivals = level.repeats[0].facts.arrivals
    if arrivals is None or arrivals.max_in_flight:
        return
    queue = "client_queue_once" if book.value(f"{level.id}.retries") else "client_queue"
    for statistic in ("p99", "p50"):
        late, wait = (f"{level.id}.{figure}.{statistic}" for figure in (queue, "due_ttft"))
        if (book.value(late) or 0) > SENT_LATE * (book.value(wait) or 0):
            yield Flag(level.id, "sent_late", (late, wait))
            return


def _falls(book: Book, id: str, before: str) -> Flag | None:
    """Throughput below the level before by more than the spread of either level's repeats."""
    names = ("output_throughput", "output_throughput.min", "output_throughput.max")
    x, low, high = (book.value(f"{id}.{name}") for name in names)
    x0, low0, high0 = (book.value(f"{before}.{name}") for name in names)
    if not x or not x0:
        return None
    spread = max((high - low) / x, (high0 - low0) / x0) or SPREAD_OF_ONE
    if x >= x0 * (1 - spread):
        return None
    return Flag(id, "drop", tuple(f"{s}.output_throughput" for s in (id, before)), {"spread": spread})


def _checks(book: Book, id: str) -> Iterator[Flag]:
    for name in ("tokens_sum", "prompt_tokens", "server_tokens", "server_time", "stamps", "engine_requests",
                 "engine_prompt_tokens", "engine_generation_tokens"):  # fmt: skip
        if book.value(f"{id}.check.{name}"):
            yield Flag(id, "check", (f"{id}.check.{name}",), {"check": name})


def of_engine(book: Book, engine: EngineView, levels: list[LevelView]) -> Iterator[Flag]:
    """A ceiling that a level exceeds is too low; nothing is clipped."""
    for figure, ceiling in (("attainment", "bandwidth"), ("mbu", "bandwidth"), ("mfu", "flops_ceiling")):
        above = [f"{level.id}.{figure}" for level in levels if (book.value(f"{level.id}.{figure}") or 0) > 1]
        if above:
            scope = f"engine.{engine.id}"
            yield Flag(scope, "ceiling", (*above, f"{scope}.{ceiling}"), {"figure": figure})
