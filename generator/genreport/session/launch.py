"""One start of an engine: from its command line to its description in the round."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from genreport.crew import Means
from genreport.engines import KINDS, OWN
from genreport.engines.process import Log, Process, wait_ready
from genreport.engines.server import Server
from genreport.errors import EngineError
from genreport.machine import cpu_set
from genreport.plan import Engine, LaunchGroup, PlannedTest
from genreport.records import LaunchFacts, ModelFacts
from genreport.session.level import LOG_BYTES, Session, Sink, credentials, unix_us, verification
from genreport.session.prompts import Prompts, prompts_of
from genreport.weights import model_facts

# how long a server that was not started here may take to answer
REACH_S = 10.0
SIDE_TIMEOUT_S = 10.0
# a running server's log may have grown for months; its beginning is what describes it
START_LOG_BYTES = 1 << 20
# the last ids of a vocabulary are often special tokens
RESERVED_IDS = 256
MOST_IDS = 1 << 31  # of a vocabulary
TOLD = 10  # names of models in a message


@asynccontextmanager
async def serving(group: LaunchGroup, as_written: LaunchGroup, sink: Sink, means: Means) -> AsyncIterator[Session]:
    """A ready engine, described in the round; stopped when the block ends, however it ends. Raises EngineError."""
    engine = group.engine
    kind = (OWN if engine.api == "own" else KINDS)[engine.kind]
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
        vocabulary = _ids_below(engine, model, endpoints)
        prompts = {test.id: await _prompts(test, engine, vocabulary, http) for test in group.tests}
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
            LaunchFacts(**facts, started_unix_us=started, ready_us=ready_us),
            start_log.decode("utf-8", "replace") if start_log is not None else None,
        )
        yield Session(engine, as_written.engine, server, launch, prompts, sink, means)


def _side_client(engine: Engine, url: str) -> httpx.AsyncClient:
    """A client for everything but the load; the key goes to the engine's own host only."""
    own = urlsplit(url).hostname == urlsplit(engine.url).hostname
    return httpx.AsyncClient(
        base_url=engine.url,
        headers=credentials(engine) if own else {},
        verify=verification(engine),
        timeout=SIDE_TIMEOUT_S,
        trust_env=False,
    )


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
        listed = ", ".join([str(name)[:200] for name in names[:TOLD]] + ["…"] * (len(names) > TOLD))
        raise EngineError(f"serves {listed}, not {engine.model}", cure="mend `model` in the plan")


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
    return next((size for size in sizes if type(size) is int and 0 < size < MOST_IDS), None)


def _start_log(server: Server) -> bytes | None:
    """The lines until now, or of a server that ran already the first ones."""
    if server.log is None:
        return None
    size = server.log.size()
    return server.log.lines(0, min(size, LOG_BYTES if server.process else START_LOG_BYTES))[1]


def _described(group: LaunchGroup, as_written: LaunchGroup) -> dict[str, Any]:
    """What the plan says of a launch, variables unexpanded."""
    engine, written = group.engine, as_written.engine
    return {
        "engine": engine.id,
        "kind": engine.kind,
        "model": written.model,
        "precision": written.precision,
        "kv_bytes_per_element": engine.kv_bytes_per_element,
        "baseline": engine.baseline,
        "test": group.test.id if group.test else None,
        "variant_of": engine.variant_of,
        "command": written.command(as_written.test) or None,
        "flags": [*written.flags, *(as_written.test.flags if as_written.test else [])],
        "env": written.launch.env if written.launch else {},
        "cpus": written.launch.cpus if written.launch else None,
        "url": written.url,
    }


def _ids_below(engine: Engine, model: ModelFacts | None, endpoints: dict[str, Any]) -> int | None:
    """The first of the token ids that are reserved, or beyond the vocabulary."""
    size = engine.vocabulary or (model and model.architecture.vocabulary) or _vocabulary(endpoints)
    return None if size is None else size - RESERVED_IDS


async def _prompts(test: PlannedTest, engine: Engine, vocabulary: int | None, http: httpx.AsyncClient) -> Prompts:
    try:
        return await prompts_of(test, engine, vocabulary, http)
    except ValueError as error:  # the file was another when the plan was read
        raise EngineError(str(error), cure="put the file back") from None
