"""One start of an engine: from its command line to the last level that is measured on it."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from genreport import rounds
from genreport.client import Call, Client, Clock
from genreport.engines import KINDS
from genreport.engines.process import Log, Process, wait_ready
from genreport.engines.server import Samples, Server
from genreport.errors import EngineError
from genreport.load import Honesty, closed_loop
from genreport.machine import cpu_set
from genreport.plan import Engine, LaunchGroup, LevelPlan, PlannedTest, level_seed
from genreport.progress import Silent
from genreport.records import LaunchFacts, LogRange, ModelFacts, Request
from genreport.redact import Redactor
from genreport.rounds import LevelWriter, RoundWriter
from genreport.weights import model_facts

# how long a server that was not started here may take to answer
REACH_S = 10.0
SIDE_TIMEOUT_S = 10.0
# a running server's log may have grown for months; its beginning is what describes it
START_LOG_BYTES = 1 << 20
# the last ids of a vocabulary are often special tokens
RESERVED_IDS = 256
# for servers that take no token ids: words that are one token in nearly every vocabulary
WORDS = (
    "time", "people", "year", "way", "day", "man", "thing", "world", "life", "hand", "part", "child", "eye", "place",
)  # fmt: skip


def unix_us() -> int:
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Sink:
    """Where observations go: the round, through the redactor, and the eyes of whoever waits."""

    round: RoundWriter
    redactor: Redactor
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
    def tokens(self) -> int:
        """Prompt and output tokens of one request."""
        return self.level.shape.input + self.level.shape.output

    @property
    def work(self) -> int:
        """Prompt and output tokens of all measured requests."""
        return self.level.requests * self.tokens


def steps(group: LaunchGroup, plan_seed: int) -> list[Step]:
    """All repeats of a launch, interleaved: every level once before any level again."""
    repeats = range(1, max(test.repeats for test in group.tests) + 1)
    return [
        Step(group.engine, test, level, repeat, level_seed(plan_seed, test.id, level.name, repeat))
        for repeat in repeats
        for test in group.tests
        if repeat <= test.repeats
        for level in test.levels()
    ]


@asynccontextmanager
async def serving(group: LaunchGroup, as_written: LaunchGroup, sink: Sink) -> AsyncIterator[Session]:
    """A ready engine, described in the round; stopped when the block ends, however it ends. Raises EngineError."""
    engine, kind = group.engine, KINDS[group.engine.kind]
    model = model_of(tuple(engine.model_files))
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(_side_client(engine, engine.url))
        metrics = engine.metrics_url or (engine.url + kind.METRICS if kind.METRICS else None)
        meter = await stack.enter_async_context(_side_client(engine, metrics or engine.url))
        started, began = unix_us(), time.monotonic_ns()
        process = _start(group, sink, stack)
        patience_s = engine.launch.ready_s if engine.launch else REACH_S
        await wait_ready(http, kind.READY, patience_s, process)
        ready_us = (time.monotonic_ns() - began) // 1000
        server = Server(kind, http, meter, metrics, process, process.log if process else _log(engine))
        version, endpoints = await kind.facts(http)
        _serves(engine, endpoints)
        prompts = _prompts(engine, model, endpoints)
        launch = sink.round.next_launch(group.name)
        start_log = _start_log(server)
        facts = _described(group, as_written) | {
            "version": version,
            "endpoints": endpoints,
            "model_facts": sink.round.model(model) if model else None,
            "start_log_bytes": len(start_log) if start_log is not None else None,
        }
        sink.round.launch(
            launch,
            LaunchFacts(**sink.redactor.value(facts), started_unix_us=started, ready_us=ready_us),
            sink.redactor.text(start_log.decode("utf-8", "replace")) if start_log is not None else None,
        )
        yield Session(engine, server, launch, prompts, sink)


def _side_client(engine: Engine, url: str) -> httpx.AsyncClient:
    """A client for everything but the load; the key goes to the engine's own host only."""
    own = urlsplit(url).hostname == urlsplit(engine.url).hostname
    return httpx.AsyncClient(
        base_url=engine.url,
        headers=_key(engine) if own else {},
        verify=_verify(engine),
        timeout=SIDE_TIMEOUT_S,
        trust_env=False,
    )


def _key(engine: Engine) -> dict[str, str]:
    return {"Authorization": f"Bearer {os.environ[engine.api_key_env]}"} if engine.api_key_env else {}


def _verify(engine: Engine) -> ssl.SSLContext | bool:
    try:
        return ssl.create_default_context(cafile=engine.ca_file) if engine.ca_file else True
    except ssl.SSLError:
        raise EngineError("its ca_file holds no certificates", cure="give a file in PEM format") from None


@cache
def model_of(files: tuple[str, ...]) -> ModelFacts | None:
    """The model in these files, read once a run and before any engine starts: hashing keeps disk and core busy."""
    return model_facts([Path(file) for file in files]) if files else None


def _start(group: LaunchGroup, sink: Sink, stack: AsyncExitStack) -> Process | None:
    launch = group.engine.launch
    if launch is None:
        return None
    if _taken(group.engine.url):
        raise EngineError(f"something answers at {group.engine.url} already", cure="stop it, or plan another port")
    sink.progress.say(f"starting {group.name}")
    cpus = cpu_set(launch.cpus) if launch.cpus else None
    process = Process(group.engine.command(group.test), env=launch.env, cpus=cpus)
    stack.callback(process.stop, launch.stop_s)
    return process


def _taken(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET6 if ":" in (parts.hostname or "") else socket.AF_INET) as probe:
        probe.settimeout(1)
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def _log(engine: Engine) -> Log | None:
    return Log(Path(engine.log_path)) if engine.log_path and os.access(engine.log_path, os.R_OK) else None


def _serves(engine: Engine, endpoints: dict[str, Any]) -> None:
    """Refuses a wrong model name here: one engine answers 404 to it, another serves what it has."""
    names = [name for model in _models(endpoints) for name in (model.get("id"), *_listed(model.get("aliases")))]
    if names and engine.model not in names:
        raise EngineError(f"serves {', '.join(map(str, names))}, not {engine.model}", cure="mend `model` in the plan")


def _models(endpoints: dict[str, Any]) -> list[dict[str, Any]]:
    answer = endpoints.get("/v1/models")
    models = _listed(answer.get("data")) if isinstance(answer, dict) else []
    return [model for model in models if isinstance(model, dict)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _vocabulary(endpoints: dict[str, Any]) -> int | None:
    """What llama-server says of its model."""
    metas = [model.get("meta") for model in _models(endpoints)]
    sizes = [meta.get("n_vocab") for meta in metas if isinstance(meta, dict)]
    return next((size for size in sizes if isinstance(size, int)), None)


def _start_log(server: Server) -> bytes | None:
    if server.log is None:
        return None
    size = server.log.size()
    return server.log.bytes(0, size if server.process else min(size, START_LOG_BYTES))


def _described(group: LaunchGroup, as_written: LaunchGroup) -> dict[str, Any]:
    """What the plan says of a launch, variables unexpanded."""
    engine, written = group.engine, as_written.engine
    return {
        "engine": engine.id,
        "kind": engine.kind,
        "model": engine.model,
        "precision": engine.precision,
        "kv_bytes_per_element": engine.kv_bytes_per_element,
        "baseline": engine.baseline,
        "test": group.test.id if group.test else None,
        "variant_of": engine.variant_of,
        "command": written.command(as_written.test) or None,
        "flags": [*written.flags, *(as_written.test.flags if as_written.test else [])],
        "env": written.launch.env if written.launch else {},
        "cpus": engine.launch.cpus if engine.launch else None,
        "url": written.url,
    }


Prompts = Callable[[str, int], list[int] | str]


def _prompts(engine: Engine, model: ModelFacts | None, endpoints: dict[str, Any]) -> Prompts:
    """Prompts of an exact length in tokens: the same for the same seed on every engine with the same vocabulary."""
    if engine.prompt_form == "text":
        return lambda seed, length: " ".join(random.Random(seed).choices(WORDS, k=length))
    size = engine.vocabulary or (model and model.architecture.vocabulary) or _vocabulary(endpoints)
    if size is None:
        raise EngineError("how many token ids its vocabulary has is unknown", cure="say `vocabulary:` in the plan")
    ids = range(engine.first_token, size - RESERVED_IDS)
    if not ids:
        raise EngineError(f"no token ids from {ids.start} to {ids.stop}", cure="lower `first_token` in the plan")
    return lambda seed, length: random.Random(seed).choices(ids, k=length)


@dataclass(frozen=True)
class Session:
    """A ready engine, and the levels measured on it."""

    engine: Engine
    server: Server
    launch: str
    prompts: Prompts
    sink: Sink

    async def level(self, step: Step) -> None:
        """Measures one repeat and seals it; what happens to the engine meanwhile is in its records and remarks."""
        self.sink.progress.level(step.key, step.level.requests, step.tokens)
        writer = self.sink.round.level(step.key)
        try:
            facts = await self._repeat(step, writer)
        except BaseException:
            writer.abandon()
            raise
        writer.seal(facts)
        self.sink.progress.done(facts["remarks"])

    async def _repeat(self, step: Step, writer: LevelWriter) -> dict[str, Any]:
        await asyncio.sleep(step.test.pause_s)
        origin_unix_us, clock, log = unix_us(), Clock(), self.server.log
        remarks: list[str] = []
        async with self._client(step) as client:
            await self._load(client, step, clock, writer, warmup=True)
            before_us = await self._scrape(writer, rounds.BEFORE, "before", clock, remarks)
            start = log.size() if log else 0
            async with self.server.watched(clock.now_us) as seen, Honesty() as honesty:
                await self._load(client, step, clock, writer, warmup=False)
            after_us = await self._scrape(writer, rounds.AFTER, "after", clock, remarks)
        end = log.size() if log else 0
        await self._note_death(remarks)
        self._write(writer, seen, log.text(start, end) if log else None)
        return self._facts(step) | {
            "origin_unix_us": origin_unix_us,
            "before_us": before_us,
            "after_us": after_us,
            "log": LogRange(start=start, end=end) if log else None,
            "client": honesty.facts,
            "remarks": remarks,
        }

    def _write(self, writer: LevelWriter, seen: Samples, log: str | None) -> None:
        texts = {rounds.SAMPLES: seen.samples(), rounds.SLOTS: seen.busy_slots(), rounds.GPU: "".join(seen.gpu)}
        if log is not None:
            texts[rounds.ENGINE_LOG] = self.sink.redactor.text(log)
        for file, text in texts.items():
            if text or file == rounds.ENGINE_LOG:
                writer.text(file, text)

    def _client(self, step: Step) -> Client:
        """The load's own client; connections opened by the warm-up stay open for the measured requests."""
        return Client(
            self.engine.url,
            headers=_key(self.engine),
            fresh_connections=self.server.kind.FRESH_CONNECTIONS,
            verify=_verify(self.engine),
            stall_s=step.test.stall_s,
        )

    async def _load(self, client: Client, step: Step, clock: Clock, writer: LevelWriter, *, warmup: bool) -> None:
        def done(request: Request) -> None:
            writer.request(self._publishable(request))
            if not warmup:
                self.sink.progress.request(request)

        await closed_loop(client, self._calls(step, warmup), step.level.concurrency, clock, done)

    def _calls(self, step: Step, warmup: bool) -> list[Call]:
        """A level's requests, all made beforehand; the warm-up's prompts are never sent again."""
        shape, sampling = step.level.shape, self.engine.sampling
        calls = []
        for index in range(step.test.warmup if warmup else step.level.requests):
            prompt = self.prompts(f"{step.seed}/{'warmup/' if warmup else ''}{index}", shape.input)
            body = self.server.kind.body(self.engine.model, prompt, shape.output, step.seed) | sampling
            calls.append(
                Call(
                    index=index,
                    seed=step.seed,
                    # a setting of null takes a field out, for servers that refuse it
                    body={name: value for name, value in body.items() if value is not None},
                    asked_input=shape.input,
                    asked_output=shape.output,
                    warmup=warmup,
                )
            )
        return calls

    def _publishable(self, request: Request) -> Request:
        redactor, failure = self.sink.redactor, request.failure
        return request.model_copy(
            update={
                "text": redactor.text(request.text),
                "server": redactor.value(request.server),
                "failure": failure and failure.model_copy(update={"message": redactor.text(failure.message)}),
            }
        )

    async def _scrape(self, writer: LevelWriter, file: str, moment: str, clock: Clock, remarks: list[str]) -> int:
        """Waits until the server is idle and writes its counters; returns when they were read."""
        text, wrong = await self.server.quiet_counters()
        read_us = clock.now_us()
        if text is not None:
            writer.text(file, self.sink.redactor.text(text))
        if wrong:
            remarks.append(f"{moment} the level: {wrong}")
        return read_us

    async def _note_death(self, remarks: list[str]) -> None:
        process = self.server.process
        if process is not None and process.exit_code is not None:
            remarks.append(f"the engine died: {self.sink.redactor.text(process.death())}")
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
            "requests": level.requests,
            "warmup": step.test.warmup,
            "seed": step.seed,
            "sampling": {"temperature": 0, "ignore_eos": True, **self.engine.sampling},
        }
