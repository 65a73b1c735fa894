"""The levels that are measured on one ready engine."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from genreport import rounds
from genreport.arrivals import BLOCK, Arrival
from genreport.client import Call, Client, Clock
from genreport.corpus import USER, Message, chosen, described, joined, words_of
from genreport.crew import PACE, Alone, Crew, Means, pace_of, pipes, workers_for
from genreport.engines import chatted, sampled
from genreport.engines.server import Samples, Server
from genreport.errors import EngineError
from genreport.load import Ahead, Honesty, Patience, within
from genreport.plan import Engine, LaunchGroup, LevelPlan, Met, PlannedTest, level_seed
from genreport.progress import Silent
from genreport.records import Conversations, LogRange, Request
from genreport.rounds import LevelWriter, RoundWriter
from genreport.session.counting import count_again
from genreport.session.prompts import Prompts
from genreport.session.talking import Talks
from genreport.worker import Target

# an engine may log more than anyone reads; the lines past this are not kept, and a remark says so
LOG_BYTES = 1 << 24

# connections refused in a row after which a load that goes by time has no server any more
REFUSED = 100
AHEAD = 256  # calls of a closed loop that are made beforehand, at least
ALONE = "held by the recording process alone: its requests cannot be made beforehand and shared out"


def unix_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Sink:
    """Where observations go: the round, which redacts what it is given, and the eyes of whoever waits."""

    round: RoundWriter
    progress: Silent


@dataclass(frozen=True)
class Step:
    """One repeat of one level of one test on one engine."""

    engine: Engine
    test: PlannedTest
    level: LevelPlan
    repeat: int
    seed: int

    @property
    def key(self) -> str:
        return f"{self.test.id}/{self.engine.id}/{self.level.name}/r{self.repeat}"

    @property
    def work(self) -> float:
        """A measure of how long it takes: output tokens, a prompt token as a sixteenth of one, fewer side by side."""
        shape = self.level.shape
        return self.level.expected * (shape.output + shape.input / 16) / (self.level.concurrency or 1) ** 0.7


# what is known of the levels of a search on an engine
Judge = Callable[[Engine, PlannedTest], Met]


def steps(group: LaunchGroup, plan_seed: int, judge: Judge = lambda engine, test: lambda level: None) -> list[Step]:
    """All repeats of a launch, interleaved: every level once before any level again; of a search those known to come."""
    repeats = range(1, max(test.repeats for test in group.tests) + 1)
    return [
        Step(group.engine, test, level, repeat, level_seed(plan_seed, test.id, level.name, repeat))
        for repeat in repeats
        for test in group.tests
        if repeat <= test.repeats
        for level in test.levels(judge(group.engine, test))
    ]


def _asked(step: Step, warmup: bool) -> Iterator[Arrival]:
    """What to send, in order; a closed loop that goes by time has no end of its own."""
    level = step.level
    plain = Arrival(0, level.shape.input, level.shape.output)
    if warmup:
        return repeat(plain, step.test.warmup)
    if level.arrivals:
        return level.schedule(step.seed)
    return repeat(plain) if level.requests is None else repeat(plain, level.requests)


def _pieces(step: Step, name: str, arrival: Arrival) -> Iterator[tuple[str, int]]:
    """Seeds and lengths of the parts of a prompt: what others have too, and the rest, which is its own."""
    shared = min(round(arrival.input * step.level.shared_prefix), arrival.input)
    common = [(f"{step.seed}/prefix", shared)] if shared else []
    common += [(f"{step.seed}/block{block}", BLOCK) for block in arrival.blocks]
    left = arrival.input
    for seed, length in common:
        if taken := min(length, left):
            yield seed, taken
        left -= taken
    if left:
        yield f"{step.seed}/{name}", left


def credentials(engine: Engine) -> dict[str, str]:
    return {"Authorization": f"Bearer {os.environ[engine.api_key_env]}"} if engine.api_key_env else {}


def verification(engine: Engine) -> ssl.SSLContext | bool:
    try:
        return ssl.create_default_context(cafile=engine.ca_file) if engine.ca_file else True
    except ssl.SSLError:
        raise EngineError("its ca_file holds no certificates", cure="give a file in PEM format") from None


@dataclass(frozen=True)
class Session:
    """A ready engine, the levels measured on it, and the `means` to load it.

    `written` is the engine with its variables as the plan has them; `prompts` go by the ids of tests.
    """

    engine: Engine
    written: Engine
    server: Server
    launch: str
    prompts: Mapping[str, Prompts]
    sink: Sink
    means: Means

    async def level(self, step: Step) -> None:
        """Measures one repeat and seals it; what happens to the engine meanwhile is in its records and remarks."""
        self.sink.progress.level(step.key, self.engine.id, step.level.expected, step.work)
        writer = self.sink.round.level(step.key)
        try:
            facts = await self._repeat(step, writer)
        except BaseException:
            writer.abandon()
            raise
        self.sink.progress.done(writer.seal(facts).remarks)

    async def _repeat(self, step: Step, writer: LevelWriter) -> dict[str, Any]:
        await asyncio.sleep(step.test.pause_s)
        origin_unix_us, clock = unix_us(), Clock()
        remarks: list[str] = []
        paces = [0.0]
        prompts = self.prompts[step.test.id]
        talks = Talks(step.level, step.seed, prompts, partial(self._turn, step)) if step.level.talk else None
        async with self._holder(step, clock) as holder:
            await self._load(
                holder, step, clock, writer, talks, lambda done: paces.append(pace_of(done) or 0), warmup=True
            )
            holder.keep(workers_for(step.level, max(paces) or PACE, self.means))
            before_us = await self._scrape(writer, rounds.BEFORE, "before", clock, remarks)
            start = self._logged()
            lasts_s = step.level.duration_s or 0
            async with self.server.watched(clock.now_us, lasts_s) as seen, Honesty(lasts_s) as honesty:
                sent = await self._load(holder, step, clock, writer, talks, self.sink.progress.request, warmup=False)
            after_us = await self._scrape(writer, rounds.AFTER, "after", clock, remarks)
        end = self._logged()
        await self._note_death(remarks)
        self._write(writer, seen)
        return self._facts(step) | {
            "origin_unix_us": origin_unix_us,
            "before_us": before_us,
            "after_us": after_us,
            "log": self._write_log(writer, start, end, remarks),
            "tokenizer": await count_again(self.server, self.engine.model, writer, remarks),
            "client": holder.facts(honesty.facts),
            "requests": sent,
            "conversations": _told(talks, sent, remarks) if talks else None,
            "remarks": [*holder.remarks, *seen.remarks, *remarks],
        }

    def _logged(self) -> int:
        return self.server.log.size() if self.server.log else 0

    def _write(self, writer: LevelWriter, seen: Samples) -> None:
        texts = {rounds.SAMPLES: seen.samples(), rounds.SLOTS: seen.busy_slots(), rounds.GPU: "".join(seen.gpu)}
        for file, text in texts.items():
            if text:
                writer.text(file, text)

    def _write_log(self, writer: LevelWriter, start: int, end: int, remarks: list[str]) -> LogRange | None:
        """Writes what the engine logged between two offsets, in whole lines; the last words of a dead one as they are.

        Of more than `LOG_BYTES` the first are kept.
        """
        log, process = self.server.log, self.server.process
        if log is None:
            return None
        kept = min(end, start + LOG_BYTES)
        if kept < end:
            remarks.append(f"the engine logged {end - start} bytes; the first {LOG_BYTES} are kept")
        ended = kept == end and process is not None and process.exit_code is not None
        start, data = log.lines(start, kept, ended=ended)
        writer.text(rounds.ENGINE_LOG, data.decode("utf-8", "replace"))
        return LogRange(start=start, end=start + len(data))

    def _holder(self, step: Step, clock: Clock) -> Alone | Crew:
        """Who holds the load: this process, or as many as may be needed; how many are is known after the warm-up."""
        most = workers_for(step.level, PACE, self.means)
        if step.level.alone or (most == 1 and not self.means.links):
            holder = Alone(Client(self.engine.url, verify=verification(self.engine), **self._manner(step)), clock)
            holder.remarks += [ALONE] if self.means.links else []
            return holder
        ca = Path(self.engine.ca_file).read_text("ascii", "ignore") if self.engine.ca_file else None
        target = Target(url=self.engine.url, origin_us=clock.origin_us, ca=ca, **self._manner(step))
        return Crew((self.means.links or pipes)(most), target, clock)

    def _manner(self, step: Step) -> dict[str, Any]:
        """How clients ask; connections opened by the warm-up stay open for the measured requests."""
        return {
            "headers": credentials(self.engine),
            "fresh_connections": self.server.kind.FRESH_CONNECTIONS,
            "stall_s": step.test.stall_s,
            "request_s": step.test.request_s,
        }

    async def _load(
        self,
        holder: Alone | Crew,
        step: Step,
        clock: Clock,
        writer: LevelWriter,
        talks: Talks | None,
        told: Callable[[Request], None],
        *,
        warmup: bool,
    ) -> int:
        """How many requests were sent; a load that goes by time ends when nobody takes its connections any more."""
        level, sent, ahead = step.level, 0, None
        refused = REFUSED if level.duration_s else None
        patience = Patience(refused)

        def done(request: Request) -> None:
            nonlocal sent
            sent += 1
            patience.seen(request)
            writer.request(request)
            told(request)
            if ahead:
                ahead.more()

        if talks and not warmup and isinstance(holder, Alone):
            begun = patience.calls(talks)
            begun = within(begun, clock, level.duration_s) if level.duration_s else begun
            await holder.conversations(begun, level.concurrency or 1, talks.plan.think_s, done)
            return sent
        calls = patience.calls(talks.warmup(step.test.warmup) if talks else self._calls(step, warmup))
        if warmup or level.arrivals is None:
            places = level.concurrency or 1
            ahead = Ahead(calls, max(AHEAD, 2 * places))
            by_time = level.duration_s and not warmup
            await holder.closed(within(ahead, clock, level.duration_s) if by_time else ahead, places, done)
        else:
            await holder.open(calls, done, level.arrivals.max_in_flight, refused)
        return sent

    def _calls(self, step: Step, warmup: bool) -> Iterator[Call]:
        """A level's requests; the warm-up's prompts are never sent again."""
        asked = _asked(step, warmup)
        return (self._call(step, index, arrival, warmup) for index, arrival in enumerate(asked))

    def _call(self, step: Step, index: int, arrival: Arrival, warmup: bool) -> Call:
        prompts, asked_input = self.prompts[step.test.id], arrival.input
        if prompts.chats:
            said = chosen(prompts.chats, step.seed, -1 - index if warmup else index).messages
            asked_input, prompt = words_of(said), "\n".join(message["content"] for message in said)
        else:
            pieces = _pieces(step, f"{'warmup/' if warmup else ''}{index}", arrival)
            prompt = self._joined([prompts.piece(*piece) for piece in pieces])
            said = [{"role": USER, "content": prompt}]
        body = self._said(step, prompt, said, arrival.output)
        return Call(
            index=index,
            seed=step.seed,
            body=sampled(self.server.kind, body, self.engine.sampling),
            asked_input=asked_input,
            asked_output=arrival.output,
            warmup=warmup,
            due_us=round(arrival.due_s * 1e6),
        )

    def _turn(self, step: Step, said: list[Message]) -> dict[str, Any]:
        """The body of a turn; its server may keep what it computed for the turns before."""
        body = self._said(step, joined(said), said, step.level.shape.output) | self.server.kind.KEEPING
        return sampled(self.server.kind, body, self.engine.sampling)

    def _said(self, step: Step, prompt: list[int] | str, said: list[Message], output: int) -> dict[str, Any]:
        """The body that asks to go on from a prompt, or at the chat endpoint, if the test wants it so, from what was said."""
        plain = self.server.kind.body(self.engine.model, prompt, output, step.seed)
        return chatted(plain, said) if step.test.chat else plain

    @staticmethod
    def _joined(parts: list[Any]) -> list[int] | str:
        return " ".join(parts) if isinstance(parts[0], str) else list(chain.from_iterable(parts))

    async def _scrape(self, writer: LevelWriter, file: str, moment: str, clock: Clock, remarks: list[str]) -> int:
        """Waits until the server is idle and writes its counters; returns when they were read."""
        text, wrong = await self.server.quiet_counters()
        read_us = clock.now_us()
        if text is not None:
            writer.text(file, text)
        if wrong:
            remarks.append(f"{moment} the level: {wrong}")
        return read_us

    async def _note_death(self, remarks: list[str]) -> None:
        process = self.server.process
        if process is not None and process.exit_code is not None:
            remarks.append(f"the engine died: {process.death()}")
        elif not await self.server.alive():
            remarks.append("the engine no longer answers")

    def _facts(self, step: Step) -> dict[str, Any]:
        level = step.level
        return {
            "test": step.test.id,
            "kind": step.test.kind,
            "engine": self.engine.id,
            "level": level.name,
            "repeat": step.repeat,
            "launch": self.launch,
            "shape": level.shape,
            "concurrency": level.concurrency,
            "mixed": level.trace is not None or level.talk is not None or step.test.chats,
            "chat": step.test.chat,
            **{name: described(path) for name, path in step.test.files.items()},
            "shared_prefix": level.shared_prefix or None,
            "arrivals": level.arrivals,
            "duration_s": level.duration_s,
            "search": level.search,
            "warmup": step.test.warmup,
            "seed": step.seed,
            "sampling": self.server.kind.ASKED
            | (self.server.kind.KEEPING if level.talk else {})
            | self.written.sampling,
        }


def _told(talks: Talks, sent: int, remarks: list[str]) -> Conversations:
    """What became of the conversations; turns that a failure kept from being sent are never lost in silence."""
    unsent = talks.planned - sent
    if unsent:
        remarks.append(f"{unsent} turns were not sent, because a turn before them failed")
    return talks.plan.model_copy(update={"begun": talks.begun, "unsent": unsent})
