"""Where finished exchanges are read: in the order they ended, and when the event loop has nothing better to do."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from genreport.client import Exchange
from genreport.records import Request

TURN_S = 0.0002  # reading done between two turns of the loop, which delays a stamp by no more
IDLE_S = 0.00005  # a turn shorter than this had nothing else to do
BUSY_S = 0.002  # after a longer one it waits: to look at each turn would cost every one of them
PATIENCE_S = 0.02  # how long reading waits for such a turn
COLLECT = 2000, 20, 1000  # objects, and collections of each generation before one of the next
# with half of this unread it waits no more, with all of it it reads before all else: a saturated client keeps this much
MOST_BYTES = 32 << 20


@contextmanager
def memory_settled() -> Iterator[None]:
    """Meanwhile the collector looks through young objects only, but for once in some minutes of full load.

    It stops all: with a thousand streams a full look, which comes every few seconds else, takes fifty milliseconds.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


class Desk:
    """Reads exchanges into records, and hands each to `on_done`."""

    def __init__(self, on_done: Callable[[Request], None]) -> None:
        self._on_done = on_done
        self._waiting: deque[Exchange] = deque()
        self._bytes = 0
        self._closed = False
        self._news = asyncio.Event()

    def take(self, exchange: Exchange) -> None:
        """Puts an exchange that has ended behind the others."""
        self._waiting.append(exchange)
        self._bytes += exchange.bytes
        self._news.set()

    def close(self) -> None:
        """Nothing more will come: `work` ends when all is read."""
        self._closed = True
        self._news.set()

    async def work(self) -> None:
        """Reads until it is closed and all is read."""
        turn_ended_s = time.monotonic()
        while self._waiting or not self._closed:
            if not self._waiting:
                self._news.clear()
                await self._news.wait()
                continue
            for _ in self._waiting[0].parsing:
                if time.monotonic() - turn_ended_s > self._allowed_s:
                    turn_ended_s = await self._time_to_read()
            self._hand_over()
            if time.monotonic() - turn_ended_s > self._allowed_s:
                turn_ended_s = await self._time_to_read()

    @property
    def _allowed_s(self) -> float:
        """Of reading between two turns: a saturated client reads until there is room, or it would keep ever more."""
        return TURN_S if self._bytes <= MOST_BYTES else PATIENCE_S

    def finish(self) -> None:
        """Reads what is left, at once."""
        while self._waiting:
            self._hand_over()

    def _hand_over(self) -> None:
        exchange = self._waiting.popleft()
        self._bytes -= exchange.bytes
        self._on_done(exchange.record())

    async def _time_to_read(self) -> float:
        begin = now = time.monotonic()
        while True:
            await asyncio.sleep(0)
            before, now = now, time.monotonic()
            if now - before < IDLE_S or now - begin > PATIENCE_S or self._bytes > MOST_BYTES // 2:
                return now
            await asyncio.sleep(BUSY_S)
            now = time.monotonic()
