"""Who holds a load: this process alone, or several on one clock, from one start, into one stream of records.

Calls are made by this process and shared out beforehand, every second one to the second of two workers and so on: index,
seed and prompt are as with one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from genreport.client import Call, Client, Clock
from genreport.crew.hands import Hand, Link, OnDone
from genreport.errors import EngineError
from genreport.load import Talk, closed_loop, conversations, first, open_loop
from genreport.records import ClientFacts, Failure, Request
from genreport.tally import percentile
from genreport.worker import Share, Target

LEAD_US = 200_000  # from the moment all connections stand to the common start


class Alone:
    """A load that this process holds itself."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client, self._clock = client, clock
        self.remarks: list[str] = []

    async def __aenter__(self) -> Alone:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._client.__aexit__(*exc)

    def keep(self, count: int) -> None:
        """There is no other."""

    async def closed(self, calls: Iterable[Call], places: int, on_done: OnDone) -> None:
        await closed_loop(self._client, calls, places, self._clock, on_done)

    async def open(
        self, calls: Iterable[Call], on_done: OnDone, max_in_flight: int | None, refused: int | None
    ) -> None:
        await open_loop(self._client, calls, self._clock, on_done, max_in_flight)

    async def conversations(self, talks: Iterable[Talk], at_once: int, think_s: float, on_done: OnDone) -> None:
        await conversations(self._client, talks, at_once, think_s, self._clock, on_done)

    def facts(self, own: ClientFacts) -> ClientFacts:
        """What the client of the last load says of itself, given what this process does."""
        return own


class Crew:
    """Workers that hold a load together; enter it to start them.

    A worker that dies costs its unfinished requests, which become failures, and a remark. Cancelled, a load hands over what
    had finished.
    """

    def __init__(self, links: Sequence[Link], target: Target, clock: Clock) -> None:
        self._hands = [Hand(link) for link in links]
        self._count = len(links)
        self._target, self._clock = target, clock
        self._at_work: list[Hand] = []
        self._facts: list[ClientFacts] = []
        self.remarks: list[str] = []

    async def __aenter__(self) -> Crew:
        try:
            async with asyncio.TaskGroup() as group:
                for hand in self._hands:
                    group.create_task(hand.hire(self._target))
        except BaseException as error:
            await self.__aexit__()
            raise first(error) from error
        return self

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.gather(*(hand.leave() for hand in self._hands))

    def keep(self, count: int) -> None:
        """From now on so many of them hold the load."""
        self._count = count

    async def closed(self, calls: Iterable[Call], places: int, on_done: OnDone) -> None:
        """As `closed_loop`: so many requests in flight, a worker's part of them until its part of the calls is used up."""
        await self._hold(lambda count: shares(list(calls), count, places=places), on_done)

    async def open(
        self, calls: Iterable[Call], on_done: OnDone, max_in_flight: int | None, refused: int | None
    ) -> None:
        """As `open_loop`; after so many refused connections in a row a worker begins nothing more."""
        made = list(calls)
        await self._hold(lambda count: shares(made, count, max_in_flight=max_in_flight, refused=refused), on_done)

    def facts(self, own: ClientFacts) -> ClientFacts:
        """What the workers of the last load say of themselves, and of this process its processor time."""
        clocks = [hand.link.host for hand in self._at_work if hand.link.host]
        return together(own, self._facts, len(self._at_work)).model_copy(update={"hosts": clocks or None})

    async def _hold(self, shared: Callable[[int], list[Share]], on_done: OnDone) -> None:
        living = [hand for hand in self._hands if hand.alive][: self._count]
        parts = shared(len(living)) if living else []
        hands = self._at_work = living[: len(parts)]
        self._facts = []
        try:
            async with asyncio.TaskGroup() as group:
                for hand, share in zip(hands, parts, strict=True):
                    group.create_task(hand.begin(share, on_done))
            start_us = self._clock.now_us() + LEAD_US
            async with asyncio.TaskGroup() as group:
                for number, hand in enumerate(hands, 1):
                    group.create_task(self._follow(number, hand, start_us))
        except asyncio.CancelledError:
            await asyncio.gather(*(hand.dismiss() for hand in hands))
            raise
        except BaseExceptionGroup as errors:
            raise first(errors) from errors
        if not self._facts:
            raise EngineError("all workers of the load died", cure="see what they wrote last, or plan fewer `workers`")

    async def _follow(self, number: int, hand: Hand, start_us: int) -> None:
        facts = await hand.hold(start_us)
        if facts is not None:
            self._facts.append(facts)
            return
        seen_us, unfinished, end = self._clock.now_us(), hand.unfinished, await hand.end()
        for call in unfinished:
            hand.on_done(lost(call, hand.share, start_us, seen_us, end))
        total = len(hand.share.calls)
        self.remarks.append(
            f"worker {number} of {len(self._at_work)} died ({end}): {len(unfinished)} of its {total} requests failed"
        )


def shares(
    calls: Sequence[Call],
    count: int,
    *,
    places: int | None = None,
    max_in_flight: int | None = None,
    refused: int | None = None,
) -> list[Share]:
    """A load in so many parts; no more of them than it has places or requests that may be in flight."""
    count = min(count, places or count, max_in_flight or count)
    return [
        Share(list(calls[part::count]), *(_part(whole, part, count) for whole in (places, max_in_flight)), refused)
        for part in range(count)
    ]


def _part(whole: int | None, part: int, count: int) -> int | None:
    return None if whole is None else whole // count + (part < whole % count)


def lost(call: Call, share: Share, start_us: int, seen_us: int, end: str) -> Request:
    """The record of a request that its worker did not live to hand over, sent or not."""
    due_us, why = start_us + call.due_us, f"the worker died ({end})"
    if share.places:  # when its place would have been free, nobody knows
        due_us, why = seen_us, f"{why}; due_us is when that was seen"
    return Request(
        index=call.index,
        warmup=call.warmup,
        seed=call.seed,
        asked_input=call.asked_input,
        asked_output=call.asked_output,
        due_us=due_us,
        end_us=max(due_us, seen_us),
        failure=Failure(kind="stream", message=why),
    )


def together(own: ClientFacts, parts: Sequence[ClientFacts], workers: int) -> ClientFacts:
    """Facts of several workers as one client's: the lag of the latest of them, the processor time of all and the parent's."""
    latest = max(parts, key=lambda facts: percentile(facts.lag_us, 99) if facts.lag_us else 0)
    slept_us = [facts.slept_us for facts in (own, *parts) if facts.slept_us is not None]
    return ClientFacts(
        lag_period_us=latest.lag_period_us,
        lag_us=latest.lag_us,
        cpu_us=own.cpu_us + sum(facts.cpu_us for facts in parts),
        wall_us=max(facts.wall_us for facts in parts),
        slept_us=max(slept_us, default=None),
        workers=workers,
    )
