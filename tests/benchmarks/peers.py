"""What other tools need to draw a report of the same requests: `vllm bench sweep plot` and guidellm's HTML.

Our records are written in their formats; each runs in an environment of its own, given on the command line.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import big
from genreport.records import Request
from genreport.rounds import Level, Round

METRICS = ("ttft", "tpot", "itl", "e2el")


def lines(
    work: Path, source: Round, given: argparse.Namespace, measured: Callable[..., Any], line: Callable[..., Any]
) -> Iterator[Any]:
    """A line each, with how many times as long as ours it took for the same requests."""
    folder = work / f"p{given.compare}"
    composed = big.compose(folder / "composed", source, big.Size(given.compare))
    ours = measured([Path(given.genreport), "build", composed.path, "--site", folder / "site"], folder)
    yield line(f"build of {given.compare:,} requests, for comparison", f"{ours.seconds:.1f} s")
    what = f"`vllm bench sweep plot`, {given.compare:,} requests"
    if given.vllm is None:
        yield line(what, "not run: no --vllm")
    else:
        sweep = vllm_results(composed, folder / "vllm")
        packages = {"PYTHONPATH": str(given.plot_packages)} if given.plot_packages else {}
        command = [given.vllm, "bench", "sweep", "plot", sweep, "--var-x", "max_concurrency", "--var-y",
                   "median_ttft_ms", "--curve-by", "model_id"]  # fmt: skip
        run = measured(command, folder, **packages)
        drawn = len(list(sweep.glob("*.png")))
        yield line(
            what, f"{run.seconds:.1f} s, {drawn} picture", compared=f"{run.seconds / ours.seconds:.2f} × our build"
        )


# ------------------------------------------------------------------------------------- as vllm writes it


def vllm_results(found: Round, folder: Path) -> Path:
    """A sweep's folder with the results of every repeat, as `vllm bench serve --save-detailed` has them."""
    for place, level in enumerate(found.levels):
        target = folder / f"{place:03d}-{level.facts.engine}-{level.facts.level}"
        target.mkdir(parents=True)
        (target / "summary.json").write_text(json.dumps([vllm_result(level, found.requests(level))], indent=4))
    return folder


def vllm_result(level: Level, requests: list[Request]) -> dict[str, Any]:
    """One repeat: its parameters, aggregates in ms, and a value or a list for each request in s."""
    facts, timed = level.facts, [_timed(request) for request in requests if request.failure is None]
    duration = max(t["end"] for t in timed) - min(t["start_times"] for t in timed)
    result: dict[str, Any] = {
        "backend": "openai", "label": None, "model_id": facts.engine, "tokenizer_id": facts.engine,
        "num_prompts": facts.requests, "max_concurrency": facts.concurrency, "run_number": facts.repeat,
        "duration": duration, "completed": len(timed), "failed": len(requests) - len(timed),
        "total_input_tokens": facts.shape.input * len(timed), "total_output_tokens": facts.shape.output * len(timed),
        "request_throughput": len(timed) / duration, "output_throughput": facts.shape.output * len(timed) / duration,
        "total_token_throughput": (facts.shape.input + facts.shape.output) * len(timed) / duration,
    }  # fmt: skip
    for metric in METRICS:
        values = np.concatenate([np.atleast_1d(t[metric]) for t in timed]) * 1000
        result |= {f"mean_{metric}_ms": values.mean(), f"std_{metric}_ms": values.std()}
        result |= {f"{name}_{metric}_ms": np.percentile(values, q) for name, q in (("median", 50), ("p99", 99))}
    lists = {"ttfts": "ttft", "itls": "itl", "start_times": "start_times", "generated_texts": "text"}
    return result | {name: [t[key] for t in timed] for name, key in lists.items()} | {
        "input_lens": [facts.shape.input] * len(timed), "output_lens": [facts.shape.output] * len(timed),
        "errors": [""] * len(timed),
    }  # fmt: skip


def _timed(request: Request) -> dict[str, Any]:
    """A record's times in seconds, after the definitions of the peer: the gaps between events with text."""
    stamps = [at / 1e6 for at, kind in zip(accumulate(request.gaps_us), request.kinds, strict=True) if kind in "tk"]
    start = request.t0_us / 1e6
    return {
        "start_times": start, "end": start + stamps[-1], "ttft": stamps[0], "itl": np.diff(stamps).tolist(),
        "tpot": (stamps[-1] - stamps[0]) / max(1, len(stamps) - 1), "e2el": stamps[-1], "text": request.text,
    }  # fmt: skip
