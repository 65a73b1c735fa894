"""What other tools need to draw a report of the same requests: `vllm bench sweep plot` and guidellm's HTML.

Our records are written in their formats; each runs in an environment of its own, given on the command line.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import big
from genreport.records import Request
from genreport.rounds import Level, Round

GENREPORT = Path(sys.executable).with_name("genreport")
PORT = 9431  # of the mock server
METRICS = ("ttft", "tpot", "itl", "e2el")


def lines(
    work: Path, source: Round, given: argparse.Namespace, measured: Callable[..., Any], line: Callable[..., Any]
) -> Iterator[Any]:
    """A line each: seconds, and how many times as long as our build of the same requests that is."""
    folder = work / f"p{given.compare}"
    composed = big.compose(folder / "composed", source, big.Size(given.compare))
    ours = measured([GENREPORT, "build", composed.path, "--site", folder / "site"], folder)
    yield line(
        f"build of {given.compare:,} requests × 256 tokens, to compare", f"{ours.seconds:.1f} s, {_size(folder)}"
    )
    tools = {
        "`vllm bench sweep plot`": (given.vllm, "--vllm", _vllm_plot),
        "guidellm, HTML report": (given.guidellm, "--guidellm", _guidellm_html),
    }
    for name, (tool, option, run) in tools.items():
        what = f"{name}, the same requests"
        if tool is None:
            yield line(what, f"not run: no {option}")
            continue
        done, made = run(composed, folder, given, measured)
        share = f"{done.seconds / ours.seconds:.2f} × our time"
        yield line(what, f"{done.seconds:.1f} s, {done.peak_bytes / 2**20:,.0f} MB; {made}", compared=share)


def _size(folder: Path) -> str:
    return f"{len(list((folder / 'site').rglob('*.html'))):,} pages"


def _vllm_plot(
    composed: Round, folder: Path, given: argparse.Namespace, measured: Callable[..., Any]
) -> tuple[Any, str]:
    sweep = vllm_results(composed, folder / "vllm")
    packages = {"PYTHONPATH": str(given.plot_packages)} if given.plot_packages else {}
    run = measured([given.vllm, "bench", "sweep", "plot", sweep, "--var-x", "max_concurrency", "--var-y",
                    "median_ttft_ms", "--curve-by", "model_id"], folder, **packages)  # fmt: skip
    return run, f"{len(list(sweep.glob('*.png')))} picture of one metric"


def _guidellm_html(
    composed: Round, folder: Path, given: argparse.Namespace, measured: Callable[..., Any]
) -> tuple[Any, str]:
    own = guidellm_own(folder / "own.json", given.guidellm, given.tokenizer)
    report, page = folder / "guidellm.json", folder / "guidellm.html"
    report.write_text(json.dumps(guidellm_report(composed, own)), "utf-8")
    run = measured([given.guidellm, "export", report, "--output", f"kind=html,path={page}"], folder)
    return run, f"one page of {page.stat().st_size / 1000:,.0f} kB"


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


# ------------------------------------------------------------------------------------- as guidellm writes it


def guidellm_own(path: Path, guidellm: Path, tokenizer: Path) -> dict[str, Any]:
    """A report of guidellm's own, of four requests to its mock server: the form that ours are filled into."""
    server = subprocess.Popen(
        [guidellm, "mock-server", "--port", str(PORT), "--model", "mock"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(PORT)
        command = [
            guidellm, "run", "--backend", f"kind=openai_http,target=http://127.0.0.1:{PORT},model=mock",
            "--profile", "kind=concurrent,streams=2", "--constraint", "kind=max_requests,count=4",
            "--data", "kind=synthetic_text,prompt_tokens=16,output_tokens=16",
            "--tokenizer", f"kind=huggingface_auto,model={tokenizer}", "--output", f"kind=json,path={path}",
            "--disable-console",
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    finally:
        server.terminate()
        server.wait()
    return json.loads(path.read_text("utf-8"))


def _wait_for(port: int) -> None:
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    raise SystemExit("guidellm's mock server does not answer")


def guidellm_report(found: Round, own: dict[str, Any]) -> dict[str, Any]:
    """One benchmark a repeat, with every request and its times; the aggregates stay those of guidellm's own requests."""
    (form,) = own["benchmarks"]
    like = form["requests"]["successful"][0]
    benchmarks = []
    for level in found.levels:
        requests = [guidellm_request(request, like) for request in found.requests(level) if request.failure is None]
        benchmarks.append(form | {"requests": form["requests"] | {"successful": requests}})
    return own | {"benchmarks": benchmarks}


def guidellm_request(request: Request, like: dict[str, Any]) -> dict[str, Any]:
    """A record as one of its requests: its stamps on their clock, its tokens and its text."""
    timed, tokens = _timed(request), request.kinds.count("t") + request.kinds.count("k")
    start, end = timed["start_times"], timed["end"]
    first = start + timed["ttft"]
    stamps = {
        "targeted_start": start, "queued": start, "dequeued": start, "scheduled_at": start, "resolve_start": start,
        "request_start": start, "first_request_iteration": first, "first_token_iteration": first,
        "first_output_token_iteration": first, "last_token_iteration": end, "last_request_iteration": end,
        "request_end": end, "resolve_end": end, "finalized": end, "request_iterations": tokens + 2,
        "token_iterations": tokens,
    }  # fmt: skip
    info = like["info"] | {"timings": like["info"]["timings"] | stamps, "request_id": f"{request.seed}-{request.index}"}
    return like | {
        "info": info, "request_id": info["request_id"], "output": request.text,
        "input_metrics": like["input_metrics"] | {"text_tokens": request.asked_input},
        "output_metrics": like["output_metrics"] | {"text_tokens": tokens},
    }  # fmt: skip
