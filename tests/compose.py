"""Composes rounds for tests: synthetic, valid and deterministic records with latencies that the test chooses.

Composed is not measured: every round made here is named `composed`, and says so in its plan.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genreport.arrivals import due_times
from genreport.records import (
    Architecture,
    Arrivals,
    Ceiling,
    ClientFacts,
    Conversations,
    Failure,
    GivenFile,
    LaunchFacts,
    LogRange,
    MachineFacts,
    ModelFacts,
    ModelFile,
    Request,
    RoundHead,
    SearchStep,
    Shape,
    Tensor,
    Usage,
)
from genreport.rounds import Round, RoundWriter

EPOCH_US = 1_790_000_000_000_000
SECOND = 1_000_000
GIB = 2**30
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, VOCABULARY, MLP = 2, 64, 4, 2, 16, 256, 128

# (engine id, concurrency, repeat) -> (TTFT, ITL) in seconds
Latency = Callable[[str, int, int], tuple[float, float]]


@dataclass(frozen=True)
class Engine:
    """An engine of a composed round; `ttft_s` and `itl_s` at C = 1 grow by `ttft_per_c` and `itl_per_c` a request."""

    id: str
    kind: str = "vllm"
    precision: str = "bf16"
    baseline: bool = False
    ttft_s: float = 0.050
    itl_s: float = 0.020
    ttft_per_c: float = 0.010
    itl_per_c: float = 0.0002
    flags: tuple[str, ...] = ()
    weights: str | None = None  # whose hash its files have, its own id's by default
    version: str = "0.0"
    variant_of: str | None = None
    model: str = "composed"  # the name that it is served by

    def latency(self, concurrency: int) -> tuple[float, float]:
        grown = concurrency - 1
        return self.ttft_s + self.ttft_per_c * grown, self.itl_s + self.itl_per_c * grown


@dataclass(frozen=True)
class Load:
    """One level: its name, concurrency and request shape in tokens; `requests` a repeat, max(8, 4·C) by default."""

    name: str
    concurrency: int
    input: int = 64
    output: int = 16
    requests: int | None = None
    # of an open loop, in requests/s; `concurrency` is then how many the engine works on at once
    rate: float | None = None
    searched: str | None = None  # the service level of a search that this level is a step of
    lasts_s: float | None = None  # of a soak
    grows: int | None = None  # bytes by which the server's memory grows in a second; `None`: it was not sampled
    turns: int | None = None  # of conversations; the wait grows with the turn
    process: str = (
        "constant"  # how its requests come; gamma has a `burstiness`, ramp ends at `to_rate`, burst has a `size`
    )
    burstiness: float | None = None
    to_rate: float | None = None
    size: int | None = None
    queue: int | None = None  # while so many wait for the engine, it turns the next one away
    max_in_flight: int | None = None  # of the plan; the composed client sends at once all the same
    shared_prefix: float | None = None  # the client composes prompts of no content
    trace: str | None = None  # hash of the file that is said to have set the arrivals
    file: str | None = None  # whose chats the requests are said to be

    @property
    def arrivals(self) -> Arrivals | None:
        if self.rate is None:
            return None
        facts = {
            "poisson": {"burstiness": 1},
            "gamma": {"burstiness": self.burstiness},
            "ramp": {"from_rate": self.rate, "to_rate": self.to_rate},
            "burst": {"size": self.size, "every_s": self.size / self.rate if self.size else None},
        }.get(self.process, {})
        rate = (self.rate + self.to_rate) / 2 if self.to_rate else self.rate
        return Arrivals(process=self.process, rate=rate, max_in_flight=self.max_in_flight, **facts)

    @property
    def duration_s(self) -> float | None:
        """Of a ramp, which ends by time: its other end is at the last request."""
        return self.requests / self.arrivals.rate if self.process == "ramp" else None


@dataclass(frozen=True)
class Test:
    """A test of a composed round: its kind, levels and engines (all where `None`)."""

    __test__ = False

    id: str = "concurrency"
    kind: str = "concurrency"
    levels: tuple[Load, ...] = tuple(Load(f"c{c}", c) for c in (1, 2, 4, 8, 16))
    engines: tuple[str, ...] | None = None


# their throughput curves cross between C = 2 and C = 8
VLLM = Engine("vllm-bf16", "vllm", "bf16", baseline=True)
LLAMA = Engine("llamacpp-q4", "llamacpp", "q4_1", itl_s=0.008, itl_per_c=0.0040, ttft_per_c=0.03)
ENGINES = (VLLM, LLAMA)


def sweep(*concurrencies: int, input: int = 64, output: int = 16, requests: int | None = None) -> Test:
    """A concurrency sweep over the given C."""
    return Test(levels=tuple(Load(f"c{c}", c, input, output, requests) for c in concurrencies))


def lengths(*inputs: int, concurrency: int = 4, output: int = 16) -> Test:
    """A length sweep at one C."""
    return Test("length", "length", tuple(Load(f"in{i}", concurrency, i, output) for i in inputs))


def arriving(*rates: float, requests: int = 40, at_once: int = 4, **load: Any) -> Test:
    """An open loop at these rates, sent to engines that work on `at_once` requests; what comes beyond that queues."""
    named = {rate: f"q{rate:g}".replace(".", "_") for rate in rates}
    loads = (Load(named[rate], at_once, requests=requests, rate=rate, **load) for rate in rates)
    return Test("arrivals", "open", tuple(loads))


def compose_round(
    path: str | Path,
    *,
    engines: Sequence[Engine] = ENGINES,
    tests: Sequence[Test] = (Test(),),
    repeats: int = 2,
    latency: Latency | None = None,
    jitter: float = 0.02,
    failures: Callable[[str, str, int, int], Failure | None] | None = None,
    alter: Callable[[str, Request], Request] | None = None,
    counters: bool = True,
    samples: bool = True,
    logs: bool = True,
    models: bool = True,
    ceilings: bool = True,
    warmup: int = 2,
    slos: Sequence[dict] = (),
    preemptions: int = 0,
    prefix_hits: float = 0.0,
    unfinished: Sequence[str] = (),
    seal: bool = True,
    hypotheses: Sequence[dict] = (),
    plan: dict | None = None,
    machine: dict | None = None,
    seed: str = "",
    remarks: Mapping[str, Sequence[str]] | None = None,
    lag_us: Mapping[str, int] | None = None,
) -> Round:
    """Writes a round under `path` and opens it.

    `latency` overrides the engines' own; `failures(engine, level, repeat, index)` fails requests; `alter(key, request)`
    may change any record (key = `test/engine/level/rN`); `unfinished` keys are planned but broke off; `counters`,
    `samples`, `logs`, `models` and `ceilings` leave out what a round may lack; `plan` and `machine` replace some of their
    keys; another `seed` gives another jitter; `remarks` of the recorder by key; `lag_us` of the client by level.
    """
    writer = RoundWriter(path)
    given = latency or (lambda engine, c, _: by_id[engine].latency(c))
    by_id = {engine.id: engine for engine in engines}
    keys = [key for test in tests for key in _keys(test, engines, repeats)]
    writer.head(
        RoundHead(name="composed", tool="genreport composed", started_unix_us=EPOCH_US, redaction=["none: composed"],
                  planned=keys),
        json.dumps(_plan(engines, tests, repeats, slos) | {"hypotheses": list(hypotheses)} | (plan or {}), indent=1),
    )  # fmt: skip
    writer.machine(_machine(engines, ceilings).model_copy(update=machine or {}))
    launches = {engine.id: _launch(writer, engine, place, logs, models) for place, engine in enumerate(engines)}
    for key in keys:
        if key in unfinished:
            continue
        test_id, engine_id, level_name, repeat = *key.split("/")[:3], int(key.rsplit("/r", 1)[1])
        test = next(test for test in tests if test.id == test_id)
        load = next(load for load in test.levels if load.name == level_name)
        engine = by_id[engine_id]
        ttft_s, itl_s = given(engine_id, load.concurrency, repeat)
        loop = _Loop(key, engine, load, ttft_s, itl_s, jitter, warmup, failures, seed)
        requests = [alter(key, request) if alter else request for request in loop.requests()]
        level = writer.level(key)
        for request in requests:
            level.request(request)
        if counters and engine.kind != "ollama":
            level.text("before.prom.gz", loop.scrape(0, preemptions, prefix_hits))
            level.text("after.prom.gz", loop.scrape(1, preemptions, prefix_hits))
        if samples and SERIES[engine.kind]:
            level.text("samples.jsonl", loop.samples())
            if engine.kind == "llamacpp":
                level.text("slots.jsonl", loop.slots())
        if logs:
            level.text("engine.log.gz", "composed: the engine said nothing\n")
        facts = _facts(test, load, engine_id, launches[engine_id], repeat, warmup, loop, logs)
        if lag_us and level_name in lag_us:
            facts["client"] = facts["client"].model_copy(update={"lag_us": [lag_us[level_name]] * 40})
        level.seal(facts | {"remarks": (remarks or {}).get(key, [])})
    if seal:
        writer.seal(EPOCH_US + 3600 * SECOND)
    return Round(path)


def bunched(_: str, request: Request) -> Request:
    """The request with its events read three at a time, so that most gaps are 0: for `alter` of `compose_round`."""
    gaps = list(request.gaps_us)
    for place in range(1, len(gaps) - 1):
        if place % 3:
            gaps[place], gaps[place + 1] = 0, gaps[place] + gaps[place + 1]
    return request.model_copy(update={"gaps_us": gaps})


def _keys(test: Test, engines: Sequence[Engine], repeats: int) -> list[str]:
    ids = test.engines or tuple(engine.id for engine in engines)
    return [
        f"{test.id}/{engine}/{load.name}/r{repeat}"
        for engine in ids
        for load in test.levels
        for repeat in range(1, repeats + 1)
    ]


def _plan(engines: Sequence[Engine], tests: Sequence[Test], repeats: int, slos: Sequence[dict]) -> dict:
    return {
        "name": "composed",
        "engines": [{"id": e.id, "kind": e.kind, "baseline": e.baseline} for e in engines],
        "tests": [{"id": t.id, "kind": t.kind, "levels": [vars(load) for load in t.levels]} for t in tests],
        "repeats": repeats,
        "slos": list(slos),
    }


def _machine(engines: Sequence[Engine], ceilings: bool) -> MachineFacts:
    measured = {
        "bandwidth": Ceiling(value=30e6, unit="B/s", source="measured", method="triad", samples=[29e6, 30e6]),
        "flops": Ceiling(
            value=500e6, unit="FLOP/s", source="measured", method="matmul", dtype="fp32", lower_bound=True
        ),
    }
    return MachineFacts(
        cpu="Composed CPU", cores=2, l3_bytes=32 * 2**20, memory_bytes=24 * GIB, kernel="0.0", os="composed",
        python="3.11", ceilings={engine.id: measured for engine in engines} if ceilings else {},
    )  # fmt: skip


def _launch(writer: RoundWriter, engine: Engine, place: int, logs: bool, models: bool) -> str:
    launch = writer.next_launch(engine.id)
    start_log = None if not logs else LLAMA_LOG if engine.kind == "llamacpp" else VLLM_LOG
    start_log = "composed: ready\n" if start_log and engine.kind in OTHERS else start_log
    facts = LaunchFacts(
        engine=engine.id, kind=engine.kind, model=engine.model, precision=engine.precision, baseline=engine.baseline,
        command=["serve", engine.id, *engine.flags], flags=["--composed"], url="http://127.0.0.1:9",
        version=engine.version,
        model_facts=writer.model(_model(engine)) if models else None,
        variant_of=engine.variant_of, started_unix_us=EPOCH_US + place * SECOND, ready_us=3 * SECOND,
        start_log_bytes=len(start_log.encode()) if start_log else None,
    )  # fmt: skip
    writer.launch(launch, facts, start_log)
    return launch


def _model(engine: Engine) -> ModelFacts:
    """A tiny llama with tied embeddings: GGUF names and half a byte a weight for llama.cpp, else HF names and two."""
    gguf = engine.kind == "llamacpp"
    width = 0.5 if gguf else 2
    block = "blk.{}." if gguf else "model.layers.{}."
    names = {
        ("attn_q", "self_attn.q_proj"): [HIDDEN, HIDDEN],
        ("attn_k", "self_attn.k_proj"): [KV_HEADS * HEAD_DIM, HIDDEN],
        ("attn_v", "self_attn.v_proj"): [KV_HEADS * HEAD_DIM, HIDDEN],
        ("attn_output", "self_attn.o_proj"): [HIDDEN, HIDDEN],
        ("ffn_gate", "mlp.gate_proj"): [MLP, HIDDEN],
        ("ffn_up", "mlp.up_proj"): [MLP, HIDDEN],
        ("ffn_down", "mlp.down_proj"): [HIDDEN, MLP],
        ("attn_norm", "input_layernorm"): [HIDDEN],
    }
    shapes = {"token_embd.weight" if gguf else "model.embed_tokens.weight": [VOCABULARY, HIDDEN]}
    for layer in range(LAYERS):
        for pair, shape in names.items():
            shapes[block.format(layer) + pair[0 if gguf else 1] + ".weight"] = shape
    shapes["output_norm.weight" if gguf else "model.norm.weight"] = [HIDDEN]
    tensors = [
        Tensor(name=name, dtype="Q4" if gguf else "BF16", shape=shape, bytes=int(_product(shape) * width))
        for name, shape in shapes.items()
    ]
    size = sum(tensor.bytes for tensor in tensors) + 512
    return ModelFacts(
        files=[ModelFile(name="composed.gguf" if gguf else "model.safetensors",
                         sha256=(engine.weights or engine.id).encode().hex(),
                         bytes=size)],
        architecture=Architecture(
            name="llama", layers=LAYERS, hidden=HIDDEN, heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM,
            vocabulary=VOCABULARY, context=2048, tied_embeddings=True,
        ),
        tensors=tensors,
    )  # fmt: skip


def _product(shape: list[int]) -> int:
    product = 1
    for side in shape:
        product *= side
    return product


class _Loop:
    """C places; each takes the next request when the one before it ended, in an open loop not before it is due."""

    def __init__(self, key, engine, load, ttft_s, itl_s, jitter, warmup, failures, seed="") -> None:
        self.key, self.engine, self.load = key, engine, load
        self.ttft_s, self.itl_s, self.jitter = ttft_s, itl_s, jitter
        self.warmup, self.failures = warmup, failures
        test, _, level, repeat = key.split("/")
        self.seed = zlib.crc32(f"{test}/{level}/{repeat}".encode())  # one a repeat, the same on every engine
        self.count = load.requests or max(8, 4 * load.concurrency)
        self.random = random.Random(key + seed)
        self.done: list[Request] = []
        self.before_us = 0

    def requests(self) -> list[Request]:
        """The records in order of their ends, warm-up first."""
        warm = [self._one(k, k * SECOND // 10, warmup=True) for k in range(self.warmup)]
        self.before_us = max((r.end_us for r in warm), default=0) + 10_000
        start_us = self.before_us + 10_000
        free = [start_us + 100 * place for place in range(self.load.concurrency)]
        sent = [0] * self.load.concurrency
        schedule, begun = self._schedule(start_us), []
        for index in range(len(schedule) or self.count):
            place = free.index(min(free))
            due_us = schedule[index] if schedule else free[place]
            if self.load.queue is not None and sum(begin > due_us for begin in begun) >= self.load.queue:
                self.done.append(self._refused(self.warmup + index, due_us))
                continue
            begun.append(max(due_us, free[place]))
            request = self._one(self.warmup + index, due_us, warmup=False, wait_us=begun[-1] - due_us)
            request, sent[place] = self._in_talk(request, place, sent[place]), sent[place] + 1
            free[place] = request.end_us + 50
            self.done.append(request)
        self.done.sort(key=lambda request: request.end_us)
        return warm + self.done

    def _schedule(self, start_us: int) -> list[int]:
        """When the requests of an open loop are due; they come alike on every engine."""
        if self.load.arrivals is None:
            return []
        due_s = due_times(self.load.arrivals, self.seed, self.count, self.load.duration_s)
        return [start_us + round(s * SECOND) for s in due_s.tolist()]

    def _refused(self, index: int, due_us: int) -> Request:
        return Request(
            index=index, seed=self.seed, asked_input=self.load.input, asked_output=self.load.output, due_us=due_us,
            t0_us=due_us + 20, end_us=due_us + 3000, failure=Failure(kind="http", status=503, message="overloaded"),
        )  # fmt: skip

    def _in_talk(self, request: Request, place: int, sent: int) -> Request:
        """The request as a turn of the conversation that is held in its place; each turn waits as long again."""
        if not self.load.turns:
            return request
        turn = sent % self.load.turns
        facts = {"turn": turn, "conversation": place + self.load.concurrency * (sent // self.load.turns)}
        if request.gaps_us:
            later_us, asked = turn * request.gaps_us[0], request.usage.prompt_tokens * (turn + 1)
            facts["gaps_us"] = [request.gaps_us[0] + later_us, *request.gaps_us[1:]]
            facts |= {
                "end_us": request.end_us + later_us,
                "usage": request.usage.model_copy(update={"prompt_tokens": asked}),
            }
        return request.model_copy(update=facts)

    def _one(self, index: int, due_us: int, *, warmup: bool, wait_us: int = 0) -> Request:
        facts = {"index": index, "warmup": warmup, "seed": self.seed, "due_us": due_us, "t0_us": due_us + 20}
        asked = {"asked_input": self.load.input, "asked_output": self.load.output}
        _, engine, level, repeat = self.key.split("/")
        failure = None if warmup or not self.failures else self.failures(engine, level, int(repeat[1:]), index)
        if failure:
            return Request(**facts, **asked, end_us=due_us + 50_000, failure=failure)
        gaps = [wait_us + self._us(self.ttft_s)] + [self._us(self.itl_s) for _ in range(self.load.output - 1)]
        tail = "ed" if self.engine.kind == "llamacpp" else "ud"
        return Request(
            **facts, **asked, gaps_us=[*gaps, 30, 0], kinds="t" * self.load.output + tail,
            tokens=[1] * self.load.output + [0, 0], finish="length", text=f"answer {index}",
            usage=Usage(prompt_tokens=self.load.input, completion_tokens=self.load.output, cached_tokens=0),
            server=self._server(gaps), end_us=due_us + 20 + sum(gaps) + 40,
        )  # fmt: skip

    def _us(self, seconds: float) -> int:
        return round(seconds * SECOND * (1 + self.jitter * (self.random.random() - 0.5)))

    def _server(self, gaps: list[int]) -> dict:
        ttft_ms, decode_ms = gaps[0] / 1000 - 1, sum(gaps[1:]) / 1000
        if self.engine.kind == "llamacpp":
            return {"timings": {"cache_n": 0, "prompt_n": self.load.input, "prompt_ms": ttft_ms,
                                "predicted_n": self.load.output, "predicted_ms": decode_ms}}  # fmt: skip
        if self.engine.kind == "ollama":
            return {"timings": {"prompt_n": self.load.input, "prompt_ms": ttft_ms, "predicted_n": self.load.output,
                                "predicted_ms": decode_ms, "load_ms": 1.0}}  # fmt: skip
        if self.engine.kind in OTHERS:
            return {}
        return {"metrics": {"time_to_first_token_ms": ttft_ms, "generation_time_ms": decode_ms, "queue_time_ms": 0.02}}

    @property
    def last_us(self) -> int:
        return max(request.end_us for request in self.done)

    def scrape(self, moment: int, preemptions: int, prefix_hits: float) -> str:
        """`/metrics` before (0) or after (1) the level; the engine served 7 requests before it."""
        whole = [r for r in self.done if r.failure is None]
        requests = 7 + moment * len(whole)
        prompt, output = requests * self.load.input, requests * self.load.output
        steps = 100 + moment * (self.load.output * len(whole) // self.load.concurrency)
        lines = {"llamacpp": _llama_counters, **OTHERS}.get(self.engine.kind, _vllm_counters)
        hits = int(moment * prefix_hits * len(whole) * self.load.input)
        return lines(requests, prompt, output, steps, moment * preemptions, hits)

    def samples(self) -> str:
        """Gauges every 100 ms from the first scrape to after the last end."""
        gauges = SERIES[self.engine.kind]
        series = [*gauges, *([] if self.load.grows is None else ["process:resident_bytes"])]
        lines = [json.dumps({"format": "genreport-samples/1", "period_us": 100_000, "series": series})]
        for t in range(self.before_us, self.last_us + 200_000, 100_000):
            sent = sum(1 for r in self.done if r.t0_us <= t < r.end_us)
            running = min(sent, self.load.concurrency)
            kv = [running * (self.load.input + self.load.output) / 46592] if len(gauges) > 2 else []
            held = [] if self.load.grows is None else [GIB + self.load.grows * t // SECOND]
            lines.append(json.dumps([t, running, sent - running, *kv, *held]))
        return "\n".join(lines) + "\n"

    def slots(self) -> str:
        lines = [json.dumps({"format": "genreport-slots/1"})]
        for t in range(self.before_us, self.last_us + 200_000, 100_000):
            running = [r for r in self.done if r.t0_us <= t < r.end_us]
            working = enumerate(running[: self.load.concurrency])
            busy = [[k, r.asked_input, 0, r.asked_output // 2] for k, r in working]
            lines.append(json.dumps([t, busy]))
        return "\n".join(lines) + "\n"


def _facts(test, load, engine, launch, repeat, warmup, loop, logs) -> dict:
    return {
        "test": test.id, "kind": test.kind, "engine": engine, "level": load.name, "repeat": repeat, "launch": launch,
        "shape": Shape(input=load.input, output=load.output), "requests": loop.count,
        "concurrency": None if load.rate else load.concurrency,
        "arrivals": load.arrivals,
        "search": SearchStep(
            slo=load.searched, step=1, load=load.rate or load.concurrency, low=1, high=64,
        ) if load.searched else None,
        "chat": bool(load.turns), "duration_s": load.lasts_s, "mixed": load.file is not None,
        "trace": GivenFile(name="trace.csv", sha256=load.trace, bytes=1) if load.trace else None,
        "shared_prefix": load.shared_prefix,
        "prompts": GivenFile(name=load.file, sha256="0" * 64, bytes=1) if load.file else None,
        "conversations": Conversations(
            turns=load.turns, input=load.input, output=load.output, prefix=8, think_s=0.5,
            begun=loop.count // load.turns, unsent=1 if any(r.failure for r in loop.done) else 0,
        ) if load.turns else None,
        "warmup": warmup, "seed": 1000, "sampling": {"temperature": 0}, "origin_unix_us": EPOCH_US,
        "before_us": loop.before_us, "after_us": loop.last_us + 300_000,
        "log": LogRange(start=0, end=33) if logs else None,
        "client": ClientFacts(lag_period_us=50_000, lag_us=[50 + 10 * (k % 7) for k in range(40)],
                              cpu_us=SECOND // 10, wall_us=loop.last_us - loop.before_us),
    }  # fmt: skip


_LABELS = 'engine="0",model_name="composed"'


def _vllm_counters(requests: int, prompt: int, output: int, steps: int, preemptions: int, hits: int) -> str:
    values = {
        f"vllm:estimated_flops_per_gpu_total{{{_LABELS}}}": (prompt + output) * 2e5,
        f"vllm:estimated_read_bytes_per_gpu_total{{{_LABELS}}}": steps * 180_000.0 + output * 2_000.0,
        f"vllm:prefix_cache_queries_total{{{_LABELS}}}": float(prompt),
        f"vllm:prefix_cache_hits_total{{{_LABELS}}}": float(hits),
        f"vllm:num_preemptions_total{{{_LABELS}}}": float(preemptions),
        f"vllm:prompt_tokens_total{{{_LABELS}}}": float(prompt),
        f"vllm:generation_tokens_total{{{_LABELS}}}": float(output),
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="composed"}': 0.0,
        'vllm:request_success_total{engine="0",finished_reason="length",model_name="composed"}': float(requests),
        f"vllm:iteration_tokens_total_count{{{_LABELS}}}": float(steps),
        f"vllm:iteration_tokens_total_sum{{{_LABELS}}}": float(prompt + output),
    }
    return "# HELP composed\n" + "".join(f"{name} {value}\n" for name, value in values.items())


def _llama_counters(requests: int, prompt: int, output: int, steps: int, _: int, hits: int) -> str:
    values = {
        "prompt_tokens_total": prompt - hits,
        "prompt_tokens_cached_total": hits,
        "tokens_predicted_total": output,
        "n_decode_total": steps,
        "n_busy_slots_per_decode": output / steps,
        "requests_processing": 0,
        "requests_deferred": 0,
    }
    return "".join(f"# TYPE llamacpp:{name} gauge\nllamacpp:{name} {value}\n" for name, value in values.items())


def counted(names: dict[str, str]) -> Callable[..., str]:
    """Counters of a kind: a line for each name, of requests, tokens, or two milliseconds in the queue a request."""

    def lines(requests: int, prompt: int, output: int, *_: int) -> str:
        stated = {"requests": requests, "prompt": prompt, "output": output, "queue_s": requests * 0.002}
        return "# HELP composed\n" + "".join(f"{name} {float(stated[what])}\n" for name, what in names.items())

    return lines


# kinds that were met in their documentation alone: what each counts, by its own names
OTHERS = {
    "sglang": counted({
        'sglang:num_requests_total{model_name="m"}': "requests", 'sglang:prompt_tokens_total{model_name="m"}': "prompt",
        'sglang:generation_tokens_total{model_name="m"}': "output", "sglang:queue_time_seconds_sum": "queue_s",
        "sglang:queue_time_seconds_count": "requests"}),
    "tgi": counted({
        "tgi_request_success": "requests", "tgi_request_input_length_sum": "prompt",
        "tgi_request_generated_tokens_sum": "output", "tgi_request_queue_duration_sum": "queue_s",
        "tgi_request_queue_duration_count": "requests"}),
    "ollama": counted({}),
}  # fmt: skip
SERIES = {
    "vllm": ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"],
    "llamacpp": ["llamacpp:requests_processing", "llamacpp:requests_deferred"],
    "sglang": ["sglang:num_running_reqs", "sglang:num_queue_reqs", "sglang:token_usage"],
    "tgi": ["tgi_batch_current_size", "tgi_queue_size"],
    "ollama": [],
    "openai": ["vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"],
}

VLLM_LOG = """INFO 11-29 20:10:07 [api_utils.py:345] version 0.0
(EngineCore pid=642) INFO 11-29 20:10:29 [kv_cache.py:2235] GPU KV cache size: 46,592 tokens
(EngineCore pid=642) INFO 11-29 20:10:29 [kv_cache.py:2236] Maximum concurrency for 2,048 tokens per request: 22.75x
"""
LLAMA_LOG = """0.00.005.117 I srv  llama_server: initializing ...
0.02.922.071 I srv    load_model: initializing, n_slots = 16, n_ctx_slot = 1024, kv_unified = 'false'
0.02.923.971 I srv  llama_server: model loaded
"""
