"""How fast and how truthful load clients are, against a server whose truth is known: `make bench-client`.

Drives `genreport.nullserver` on one core with each client on another, alternated, and prints a Markdown table. Clients that
are not ours live in environments of their own, given on the command line; one that is not given is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

HERE = Path(__file__).parent
REALTIME: list[bool] = []
PERIOD_S = 0.02  # between two looks at a client's processes
MS = 1e6  # ns
MIB = 2**20


@dataclass(frozen=True)
class Load:
    """A closed loop: so many streams at once, so many answers in all, of so many tokens each."""

    name: str
    streams: int
    requests: int
    tokens: int = 64
    ttft_s: float = 0.2
    gap_s: float = 0.025

    @property
    def events_per_s(self) -> float | None:
        """Of a client that loses nothing; none at full speed."""
        each_s = self.ttft_s + (self.tokens - 1) * self.gap_s
        return self.streams * self.tokens / each_s if self.gap_s else None


LOADS = [
    Load("64 streams", 64, 192),
    Load("256 streams", 256, 768),
    Load("1000 streams", 1000, 3000),
    Load("64 streams, drained", 64, 1920, ttft_s=0, gap_s=0),
]


@dataclass
class Seen:
    """What a client says: percentiles it reports, or the stamps they are made of; in milliseconds."""

    ttft: dict[int, float]
    itl: dict[int, float]
    lag: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tool:
    """A client: its command for a load, and how its output is read."""

    name: str
    command: Callable[[str, Load, Path], list[str]]
    read: Callable[[Path, Load], Seen]


# ------------------------------------------------------------------------------------------------ the clients


def script(name: str, python: str, file: str, read: Callable[[Path, Load], Seen], *more: str) -> Tool:
    def command(url: str, load: Load, out: Path) -> list[str]:
        size = (str(load.streams), str(load.requests), str(load.tokens))
        return [python, str(HERE / file), url, *size, str(out / "seen.json"), *more]

    return Tool(name, command, read)


def bare(out: Path, load: Load) -> Seen:
    """Of the scripts that write their stamps."""
    requests = json.loads((out / "seen.json").read_text())
    return of_stamps((each["sent_ns"], each["stamps_ns"], [int(text) for text in each["wrote"]]) for each in requests)


def own(out: Path, load: Load) -> Seen:
    """Of our records: an event's text is the server's stamp."""
    lines = [json.loads(line) for line in (out / "seen.json").read_text().splitlines()]
    assert not any(line["failure"] for line in lines), next(line["failure"] for line in lines if line["failure"])
    return of_stamps(map(_record, lines))


def _record(line: dict[str, Any]) -> tuple[int, list[int], list[int]]:
    stamps = itertools.accumulate(line["gaps_us"], initial=line["t0_us"])
    events = [
        us * 1000 for us, kind in zip(itertools.islice(stamps, 1, None), line["kinds"], strict=True) if kind == "t"
    ]
    return line["t0_us"] * 1000, events, [int(text) for text in line["text"].split()]


def of_stamps(requests: Iterator[tuple[int, list[int], list[int]]]) -> Seen:
    ttft, itl, lag = [], [], []
    for sent, events, wrote in requests:
        ttft.append(events[0] - sent)
        itl.extend(np.diff(events))
        lag.extend(np.subtract(events, wrote))
    return Seen(*(percentiles(values, MS) for values in (ttft, itl, lag)))


def percentiles(values: Any, unit: float = 1.0) -> dict[int, float]:
    return {q: float(np.percentile(values, q)) / unit for q in (50, 99)}


def vllm(environment: Path, tokenizer: Path) -> Tool:
    def command(url: str, load: Load, out: Path) -> list[str]:
        options = {
            "backend": "openai", "base-url": url, "endpoint": "/v1/completions", "model": "null", "tokenizer": tokenizer,
            "dataset-name": "random", "random-input-len": 64, "random-output-len": load.tokens,
            "num-prompts": load.requests, "max-concurrency": load.streams, "percentile-metrics": "ttft,itl",
            "metric-percentiles": "50,99", "result-dir": out, "result-filename": "seen.json",
            "ready-check-timeout-sec": 0,
        }  # fmt: skip
        given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        return [
            str(environment / "bin/vllm"),
            "bench",
            "serve",
            *given,
            "--ignore-eos",
            "--save-result",
            "--disable-tqdm",
        ]

    def read(out: Path, load: Load) -> Seen:
        said = json.loads((out / "seen.json").read_text())
        return Seen(*({q: said[f"p{q}_{name}_ms"] for q in (50, 99)} for name in ("ttft", "itl")))

    return Tool("vllm bench serve", command, read)


def aiperf(environment: Path, tokenizer: Path) -> Tool:
    def command(url: str, load: Load, out: Path) -> list[str]:
        options = {
            "model": "null", "url": url, "endpoint-type": "completions", "concurrency": load.streams,
            "request-count": load.requests, "synthetic-input-tokens-mean": 64, "output-tokens-mean": load.tokens,
            "tokenizer": tokenizer, "artifact-dir": out, "ui": "none", "extra-inputs": "ignore_eos:true",
        }  # fmt: skip
        given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        return [str(environment / "bin/aiperf"), "profile", *given, "--streaming"]

    def read(out: Path, load: Load) -> Seen:
        said = json.loads(next(out.rglob("profile_export_aiperf.json")).read_text())
        return Seen(
            *({q: said[name][f"p{q}"] for q in (50, 99)} for name in ("time_to_first_token", "inter_token_latency"))
        )

    return Tool("aiperf", command, read)


def guidellm(environment: Path, tokenizer: Path) -> Tool:
    def command(url: str, load: Load, out: Path) -> list[str]:
        options = {
            "backend": f"kind=openai_http,target={url},model=any,request_format=/v1/completions",
            "profile": f"kind=concurrent,streams={load.streams}",
            "constraint": f"kind=max_requests,count={load.requests}",
            "data": f"kind=synthetic_text,prompt_tokens=64,output_tokens={load.tokens}",
            "tokenizer": f"kind=huggingface_auto,model={tokenizer}",
            "output": f"kind=json,path={out / 'seen.json'}",
        }
        given = [text for name, value in options.items() for text in (f"--{name}", value)]
        return [str(environment / "bin/guidellm"), "run", *given, "--disable-console"]

    def read(out: Path, load: Load) -> Seen:
        metrics = json.loads((out / "seen.json").read_text())["benchmarks"][0]["metrics"]
        names = "time_to_first_token_ms", "inter_token_latency_ms"
        return Seen(*({q: metrics[name]["successful"]["percentiles"][f"p{q}"] for q in (50, 99)} for name in names))

    return Tool("guidellm", command, read)


# ------------------------------------------------------------------------------------------------ a run


@dataclass(frozen=True)
class Truth:
    """The server's account of a run: percentiles in ms, tokens, and its first and last moment in ns."""

    ttft: dict[int, float]
    itl: dict[int, float]
    late: dict[int, float]
    tokens: int
    events: int
    begin_ns: int
    end_ns: int


def truth(requests: list[dict[str, Any]], load: Load) -> Truth:
    whole = sorted((r for r in requests if len(r["stamps_ns"]) == load.tokens), key=lambda r: r["read_ns"])
    whole = whole[-load.requests :]  # some clients send one to try the server
    stamps = [r["stamps_ns"] for r in whole]
    return Truth(
        ttft=percentiles([r["stamps_ns"][0] - r["read_ns"] for r in whole], MS),
        itl=percentiles(np.concatenate([np.diff(each) for each in stamps]), MS),
        late=percentiles(np.concatenate([np.subtract(r["stamps_ns"], r["due_ns"]) for r in whole]), MS),
        tokens=sum(r["tokens"] for r in whole),
        events=sum(map(len, stamps)),
        begin_ns=whole[0]["read_ns"],
        end_ns=max(each[-1] for each in stamps),
    )


@dataclass
class Cost:
    """CPU seconds of a client and its children over time, and their memory at most."""

    at_ns: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    _ended: dict[int, float] = field(default_factory=dict)

    def look(self, process: psutil.Process) -> None:
        resident = 0
        for pid in [process.pid, *_below(process.pid)]:
            try:
                each = psutil.Process(pid)
                times = each.cpu_times()
                self._ended[each.pid] = times.user + times.system
                resident += each.memory_info().rss
            except psutil.Error:
                continue  # it has ended
        self.at_ns.append(time.monotonic_ns())
        self.cpu_s.append(sum(self._ended.values()))
        self.peak_bytes = max(self.peak_bytes, resident)

    def within_s(self, begin_ns: int, end_ns: int) -> float:
        begin, end = np.interp([begin_ns - 1e7, end_ns + 2e8], self.at_ns, self.cpu_s)
        return float(end - begin)


def _below(pid: int) -> list[int]:
    """Its children and theirs; psutil would read all of /proc for it."""
    try:
        told = " ".join(file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []
    children = [int(child) for child in told.split()]
    return [*children, *(each for child in children for each in _below(child))]


@contextmanager
def null_server(load: Load, cores: set[int]) -> Iterator[str]:
    command = [sys.executable, "-m", "genreport.nullserver", "--ttft", str(load.ttft_s), "--gap", str(load.gap_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=on(cores)) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def on(cores: set[int]) -> Callable[[], None]:
    """Pins a process, and with `--realtime` lets nothing else on the machine come before it."""

    def prepare() -> None:
        os.sched_setaffinity(0, cores)
        if REALTIME:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))

    return prepare


def observed(command: list[str], folder: Path, cores: set[int]) -> Cost:
    """Runs a client to its end."""
    cost = Cost()
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    if "aiperf" in command[0]:
        del environment["HF_HUB_OFFLINE"], environment["TRANSFORMERS_OFFLINE"]  # it takes them to forbid a folder
    with (folder / "said.txt").open("w") as said:
        client = psutil.Popen(command, stdout=said, stderr=said, env=environment, cwd=folder, preexec_fn=on(cores))
        while client.poll() is None:
            cost.look(client)
            time.sleep(PERIOD_S)
    if client.returncode:
        raise ChildProcessError(f"{command[0]}: {(folder / 'said.txt').read_text()[-500:]}")
    used = os.times()
    cost.at_ns.append(time.monotonic_ns())
    cost.cpu_s.append(max(cost.cpu_s[-1], used.children_user + used.children_system - CHILDREN[0]))
    CHILDREN[0] = used.children_user + used.children_system
    return cost


CHILDREN = [0.0]  # CPU seconds of the children that ended before


def run(tool: Tool, load: Load, server: str, cores: set[int]) -> dict[str, float]:
    """One client under one load, as numbers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fetch(f"{server}/truth")
        CHILDREN[0] = sum(os.times()[2:4])
        cost = observed(tool.command(server, load, folder), folder, cores)
        true, seen = truth(fetch(f"{server}/truth"), load), tool.read(folder, load)
    seconds = (true.end_ns - true.begin_ns) / 1e9
    within_s = cost.within_s(true.begin_ns, true.end_ns)
    told = {f"{name} p{q}": seen_q - true_q[q] for name, seen_of, true_q in (("TTFT", seen.ttft, true.ttft),
            ("ITL", seen.itl, true.itl)) for q, seen_q in seen_of.items()}  # fmt: skip
    return told | {f"lag p{q}": value for q, value in seen.lag.items()} | {
        "late p99": true.late[99],
        "rate": true.tokens / seconds,
        "cpu": within_s / true.events * 1e6,
        "whole": cost.cpu_s[-1] / true.events * 1e6,
        "outside": cost.cpu_s[-1] - within_s,
        "memory": cost.peak_bytes / MIB,
    }  # fmt: skip


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


# ------------------------------------------------------------------------------------------------ the table

HEAD = (
    "client", "rate, share of offered", "lag p50 / p99, ms", "TTFT error p50 / p99, ms", "ITL error p50 / p99, ms",
    "CPU per event, µs", "CPU outside the run, s", "memory, MiB", "server late p99, ms",
)  # fmt: skip


def row(name: str, load: Load, runs: list[dict[str, float]]) -> str:
    """The median of a client's runs."""
    value = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
    offered = load.events_per_s
    lag = f"{value['lag p50']:.2f} / {value['lag p99']:.2f}" if "lag p50" in value else "not told"
    cells = (
        name, f"{value['rate']:,.0f}/s" + (f", {value['rate'] / offered:.1%}" if offered else ""), lag,
        *(f"{value[f'{of} p50']:+.2f} / {value[f'{of} p99']:+.2f}" for of in ("TTFT", "ITL")),
        f"{value['cpu']:.1f}", f"{value['outside']:.2f}", f"{value['memory']:.0f}", f"{value['late p99']:.2f}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def tools(given: argparse.Namespace) -> list[Tool]:
    found = [
        script("raw protocol, the limit", sys.executable, "raw_client.py", bare),
        script("genreport", sys.executable, "own_client.py", own),
    ]
    if given.aiohttp:
        found.append(script("aiohttp, bare", str(given.aiohttp / "bin/python"), "aiohttp_client.py", bare))
    for make, environment in ((vllm, given.vllm), (aiperf, given.aiperf), (guidellm, given.guidellm)):
        if environment:
            found.append(make(environment, given.tokenizer))
    return [tool for tool in found if not given.only or any(word in tool.name for word in given.only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("aiohttp", "vllm", "aiperf", "guidellm"):
        parser.add_argument(f"--{name}", type=Path, metavar="VENV", help=f"an environment that has {name}")
    parser.add_argument("--tokenizer", type=Path, help="a folder with a tokenizer, for clients that want one")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="clients whose name has it")
    parser.add_argument("--load", action="append", default=[], metavar="NAME", help="loads of that name")
    parser.add_argument("--server-core", type=int, default=0)
    parser.add_argument("--client-core", type=int, default=1)
    parser.add_argument("--realtime", action="store_true", help="server and client before all else; as root")
    given = parser.parse_args()
    REALTIME.extend([True] * given.realtime)
    os.sched_setaffinity(0, {given.server_core})
    print(f"{platform.platform()}, Python {platform.python_version()}, {asyncio.__name__}; {time.strftime('%F')}\n")
    for load in LOADS:
        if not given.load or load.name in given.load:
            table(load, tools(given), given)


def table(load: Load, found: list[Tool], given: argparse.Namespace) -> None:
    runs: dict[str, list[dict[str, float]]] = defaultdict(list)
    failed: dict[str, str] = {}
    with null_server(load, {given.server_core}) as server:
        for _ in range(given.repeats):
            for tool in found:
                try:
                    done = run(tool, load, server, {given.client_core})
                    runs[tool.name].append(done)
                except (ChildProcessError, KeyError, StopIteration, OSError) as error:
                    failed[tool.name] = f"{type(error).__name__}: {error}"
    print(f"### {load.name}\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
    for name, of_tool in runs.items():
        print(row(name, load, of_tool))
    for name, why in failed.items():
        print(f"\n{name}: a run failed: {why}", file=sys.stderr)
    print(flush=True)


if __name__ == "__main__":
    main()
