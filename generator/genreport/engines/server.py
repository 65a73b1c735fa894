"""A server that answers, started here or elsewhere: its counters, its log, whether it is idle and alive."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import httpx

from genreport import devices
from genreport.engines import exposition
from genreport.engines.asking import asked
from genreport.engines.process import Log, Process, answers

SAMPLE_S = 0.5
MOST_SAMPLES = 7200  # of a level, however long it lasts: what is sampled must not fill the memory
RESIDENT = "process:resident_bytes"  # of the engine's processes, where they were started here
SETTLE_S = 60.0
SETTLE_POLL_S = 0.2


@dataclass
class Samples:
    """What was seen of a server during a level: sampled series, slots at work, lines of GPU samples; [t_us, …] each.

    `remarks` say which of them ended before the level did.
    """

    series: tuple[str, ...]
    period_s: float = SAMPLE_S
    rows: list[list[Any]] = field(default_factory=list)
    slots: list[list[Any]] = field(default_factory=list)
    gpu: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def samples(self) -> str:
        """The text of samples.jsonl; empty when nothing was sampled."""
        return _lines(
            {"format": "genreport-samples/1", "period_us": int(self.period_s * 1e6), "series": list(self.series)},
            self.rows,
        )

    def busy_slots(self) -> str:
        """The text of slots.jsonl; empty when nothing was sampled."""
        return _lines({"format": "genreport-slots/1"}, self.slots)


def _lines(head: dict[str, Any], rows: list[list[Any]]) -> str:
    return "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in (head, *rows)) if rows else ""


@dataclass
class Server:
    """A ready server; `metrics` is the address of its counters, `None` where it has none."""

    kind: ModuleType
    http: httpx.AsyncClient
    meter: httpx.AsyncClient
    metrics: str | None
    process: Process | None
    log: Log | None

    async def alive(self) -> bool:
        """Whether it runs and answers; a hung server is as good as a dead one."""
        return (self.process is None or self.process.exit_code is None) and await answers(self.http, self.kind.READY)

    async def counters(self) -> str | None:
        """The whole text of its counters; `None` when there are none or they cannot be read now."""
        body = await asked(self.meter, self.metrics) if self.metrics else None
        return None if body is None else body.decode("utf-8", "replace")

    async def quiet_counters(self) -> tuple[str | None, str | None]:
        """The counters once two looks in a row found no request at work, and what is wrong with them, if anything."""
        if not self.metrics:
            return None, None
        deadline, quiet = time.monotonic() + SETTLE_S, 0
        while (text := await self.counters()) is not None:
            quiet = quiet + 1 if exposition.idle(text, self.kind.BUSY) else 0
            if quiet == 2:
                return text, None
            if time.monotonic() > deadline:
                return text, f"still busy after {SETTLE_S:g} s, so that its counters hold other work"
            await asyncio.sleep(SETTLE_POLL_S)
        return None, "its counters could not be read"

    async def tokens(self, model: str, text: str) -> int | None:
        """How many tokens its own tokenizer makes of a text; `None` where it does not say."""
        asks = self.kind.tokenizing(model, text)
        body = await asked(self.http, self.kind.TOKENIZE, post=asks)
        try:
            return None if body is None else _token_count(json.loads(body))
        except (ValueError, RecursionError):
            return None

    @asynccontextmanager
    async def watched(self, now_us: Callable[[], int], duration_s: float = 0) -> AsyncIterator[Samples]:
        """Samples the server, and the GPUs of this machine if it was started here, until the block ends.

        The longer it is to last, the rarer: no more than `MOST_SAMPLES` are kept.
        """
        period_s = max(SAMPLE_S, duration_s / MOST_SAMPLES)
        seen = Samples((*self.kind.SAMPLED, *([RESIDENT] if self.process else [])), period_s)
        tasks = {"the server": asyncio.create_task(self._sample(seen, now_us))}
        if self.process is not None and (source := devices.source()):
            tasks["the GPUs"] = asyncio.create_task(_sample_gpus(seen, now_us, source))
        try:
            yield seen
        finally:
            seen.remarks += [_ended(what, task) for what, task in tasks.items() if task.done()]
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _sample(self, seen: Samples, now_us: Callable[[], int]) -> None:
        """One look each period; a look that took longer makes the next one late, never two at once."""
        due = time.monotonic()
        while True:
            text = await self.counters() if self.kind.SAMPLED else ""
            if seen.series and text is not None:
                memory = [self.process.resident_bytes()] if self.process else []
                seen.rows.append([now_us(), *exposition.values(text, self.kind.SAMPLED), *memory])
            if self.kind.SLOTS and (slots := await self._busy_slots()) is not None:
                seen.slots.append([now_us(), slots])
            due = max(due + seen.period_s, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def _busy_slots(self) -> list[list[int]] | None:
        body = await asked(self.http, self.kind.SLOTS)
        try:
            return None if body is None else self.kind.busy_slots(json.loads(body))
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            return None


def _ended(what: str, task: asyncio.Task[None]) -> str:
    error = task.exception()
    why = f": {type(error).__name__}: {error}" if error else ""
    return f"the samples of {what} ended before the level did{why}"


def _token_count(answer: Any) -> int | None:
    """Of an object its `count`, or the length of its `tokens` (llama.cpp); of a list (TGI) the entries that hold text."""
    if isinstance(answer, list):
        return sum(isinstance(token, dict) and token.get("start") != token.get("stop") for token in answer)
    if not isinstance(answer, dict):
        return None
    count, tokens = answer.get("count"), answer.get("tokens")
    return count if type(count) is int and count >= 0 else len(tokens) if isinstance(tokens, list) else None


async def _sample_gpus(seen: Samples, now_us: Callable[[], int], source: devices.Source) -> None:
    """A line a GPU and look, each with the time it came."""
    async with aclosing(source(seen.period_s)) as lines:
        async for line in lines:
            stamp = now_us() if seen.gpu else "t_us"
            seen.gpu.append(f"{stamp}, {line}")
