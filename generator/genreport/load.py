"""A load held on a server, and how well the client held it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from itertools import islice, takewhile
from typing import TypeVar

from genreport.client import Call, Client, Clock
from genreport.desk import Desk, memory_settled
from genreport.records import ClientFacts, Request

LAG_PERIOD_US = 50_000
MOST_LAGS = 72_000  # of a level, however long it lasts
# one conversation: it takes the answer to the turn before, `None` at first, and gives the call of the next turn
Talk = Generator[Call, str | None, None]
T = TypeVar("T")


def suspended_ns() -> int | None:
    """How long this machine slept since it was started; `None` where the system does not say."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.clock_gettime_ns(time.CLOCK_MONOTONIC)


async def closed_loop(
    client: Client,
    calls: Iterable[Call],
    concurrency: int,
    clock: Clock,
    on_done: Callable[[Request], None],
    start_us: int | None = None,
) -> None:
    """Keeps `concurrency` requests in flight until the calls are used up; each record goes to `on_done` as it ends.

    A call is due the moment its place became free: at the start, or when the request before it in that place ended. It
    is taken from `calls` in that gap, so make calls before it (`Ahead`). A place is filled again before its finished request is
    parsed. A failed request frees its place like any other. Cancelled, it hands over what had finished, then leaves.
    It begins at `start_us` of the clock, which several loads may have in common, or at once.
    """
    await client.open(concurrency)
    with memory_settled():
        if start_us is None:
            start_us = clock.now_us()
        else:
            await until(start_us, clock)
        await _closed_loop(client, calls, concurrency, clock, Desk(on_done), start_us)


async def _closed_loop(
    client: Client, calls: Iterable[Call], concurrency: int, clock: Clock, desk: Desk, start_us: int
) -> None:
    waiting = iter(calls)

    async def place() -> None:
        due_us = start_us
        for call in waiting:
            exchange = await client.exchange(call.due(due_us), clock)
            due_us = exchange.end_us
            desk.take(exchange)

    await _beside(desk, _places(place, concurrency, desk))


async def _places(place: Callable[[], Coroutine[None, None, None]], count: int, desk: Desk) -> None:
    """So many places, each filled until nothing is left for it; then the desk hears that no more will come."""
    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(place())
    desk.close()


async def open_loop(
    client: Client,
    calls: Iterable[Call],
    clock: Clock,
    on_done: Callable[[Request], None],
    max_in_flight: int | None = None,
    start_us: int | None = None,
) -> None:
    """Sends each call when it is due, whatever is in flight; `due_us` of the calls counts from the start of the load.

    The load starts at `start_us` of the clock, or at once.
    While `max_in_flight` requests are under way a due one waits, and those behind it: its record keeps the due time.
    A call is taken from `calls` as soon as the one before is sent, so it is made while nothing is due.
    """
    with memory_settled():
        desk, start_us = Desk(on_done), clock.now_us() if start_us is None else start_us
        room = asyncio.Semaphore(max_in_flight) if max_in_flight else None

        async def send(call: Call) -> None:
            desk.take(await client.exchange(call, clock))
            if room:
                room.release()

        async def arrivals() -> None:
            async with asyncio.TaskGroup() as group:
                for call in calls:
                    await until(start_us + call.due_us, clock)
                    if room:
                        await room.acquire()
                    group.create_task(send(call.due(start_us + call.due_us)))
            desk.close()

        await _beside(desk, arrivals())


async def conversations(
    client: Client,
    talks: Iterable[Talk],
    concurrency: int,
    think_s: float,
    clock: Clock,
    on_done: Callable[[Request], None],
) -> None:
    """Keeps `concurrency` conversations under way until they are used up; each record goes to `on_done`.

    A turn is due `think_s` after the answer before it ended, and is made from that answer; the first one when its place
    became free. A failed turn ends its conversation.
    """
    await client.open(concurrency)
    with memory_settled():
        desk, waiting, start_us = Desk(on_done), iter(talks), clock.now_us()

        async def place() -> None:
            due_us = start_us
            for talk in waiting:
                due_us = await _held(client, talk, due_us, round(think_s * 1e6), clock, desk)

        await _beside(desk, _places(place, concurrency, desk))


async def _held(client: Client, talk: Talk, due_us: int, think_us: int, clock: Clock, desk: Desk) -> int:
    """One conversation; returns when its last answer ended."""
    end_us, call = due_us, next(talk, None)
    while call is not None:
        await until(due_us, clock)
        exchange = await client.exchange(call.due(due_us), clock)
        desk.take(exchange)
        answer, end_us = await exchange.read(), exchange.end_us
        call = None if answer.failure else _next_turn(talk, answer.text)
        due_us = end_us + think_us
    talk.close()
    return end_us


def _next_turn(talk: Talk, answer: str) -> Call | None:
    try:
        return talk.send(answer)
    except StopIteration:
        return None


async def until(due_us: int, clock: Clock) -> None:
    """Returns when it is so late on the clock.

    Timers of the event loop count whole milliseconds, and may wake too early.
    """
    while (left_us := due_us - clock.now_us()) > 0:  # noqa: ASYNC110 (nothing but time ends it)
        await asyncio.sleep(left_us / 1e6)
    await asyncio.sleep(0)  # those that are late must not keep the loop from reading


def within(calls: Iterable[T], clock: Clock, duration_s: float) -> Iterator[T]:
    """The calls, or conversations, that are taken before so much time has passed since the first was asked for."""
    end_us = clock.now_us() + duration_s * 1e6
    for call in calls:
        if clock.now_us() >= end_us:
            return
        yield call


class Ahead:
    """Calls that are made before they are taken, a bounded number of them: so many first, and one more at each `more`.

    The end of a request is when the next is taken, so a call that is made then makes the engine wait; all calls of a long
    load made beforehand are memory without end.
    """

    def __init__(self, calls: Iterable[Call], count: int) -> None:
        self._calls = iter(calls)
        self._made = deque(islice(self._calls, count))

    def more(self) -> None:
        self._made.extend(islice(self._calls, 1))

    def __iter__(self) -> Iterator[Call]:
        while True:
            if not self._made:
                self.more()
            if not self._made:
                return
            yield self._made.popleft()


class Patience:
    """Ends a load when so many connections in a row were refused: nobody is there any more."""

    def __init__(self, most: int | None) -> None:
        self._most, self._refused = most, 0

    def seen(self, request: Request) -> None:
        self._refused = self._refused + 1 if request.failure and request.failure.kind == "connect" else 0

    def calls(self, calls: Iterable[T]) -> Iterator[T]:
        """The calls, or conversations, that are taken before."""
        return takewhile(lambda _: self._most is None or self._refused < self._most, calls)


async def _beside(desk: Desk, load: Coroutine[None, None, None]) -> None:
    """Runs a load and the reading of what it brings."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(desk.work())
            group.create_task(load)
    except BaseExceptionGroup as errors:
        raise first(errors) from errors
    finally:
        desk.finish()


def first(error: BaseException) -> BaseException:
    """The first of what a group holds that went wrong at once."""
    return first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class Honesty:
    """Samples how late the event loop wakes, and counts this process's CPU time, from entry to exit.

    A lag holds up to a millisecond that is no delay of a read: epoll's timeout is whole milliseconds. The longer it is to
    last, the rarer are the samples: no more than `MOST_LAGS`.
    """

    def __init__(self, duration_s: float = 0) -> None:
        self._lag_us: list[int] = []
        self._period_us = max(LAG_PERIOD_US, round(duration_s * 1e6 / MOST_LAGS))

    async def __aenter__(self) -> Honesty:
        self._suspended_ns = suspended_ns()
        self._wall_ns, self._cpu_ns = time.monotonic_ns(), time.process_time_ns()
        self._sampling = asyncio.create_task(self._sample())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.facts = ClientFacts(
            lag_period_us=self._period_us,
            lag_us=self._lag_us,
            cpu_us=(time.process_time_ns() - self._cpu_ns) // 1000,
            wall_us=(time.monotonic_ns() - self._wall_ns) // 1000,
            slept_us=self._slept_us(),
        )
        self._sampling.cancel()
        await asyncio.gather(self._sampling, return_exceptions=True)

    def _slept_us(self) -> int | None:
        """Below a millisecond it is the time between two readings of clocks."""
        now_ns = suspended_ns()
        if now_ns is None or self._suspended_ns is None:
            return None
        slept_us = (now_ns - self._suspended_ns) // 1000
        return slept_us if slept_us >= 1000 else 0

    async def _sample(self) -> None:
        while True:
            asked_ns = time.monotonic_ns() + self._period_us * 1000
            await asyncio.sleep(self._period_us / 1e6)
            self._lag_us.append(max(0, time.monotonic_ns() - asked_ns) // 1000)
