"""A first run on any machine: the embedded llama.cpp with one slot and with four, a small plan, a site."""

from __future__ import annotations

import json
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path

from genreport import rounds
from genreport.embedded import model_file
from genreport.errors import EngineError

PLAN = """\
# What `genreport demo` measures: one engine with two settings, so that there is something to compare.
plan: 1
seed: 20261129
engines:
  - id: llamacpp
    kind: llamacpp
    model: smollm2
    precision: Q4_1
    url: http://127.0.0.1:{port}
    launch:
      command: [{python}, -m, genreport.embedded, --port, "{port}"]
      ready_s: 60
    model_files: [{model}]
    variants:
      - {{id: one-slot, flags: [--slots, "1"]}}
      - {{id: four-slots, flags: [--slots, "4"]}}
tests:
  - id: concurrency
    kind: concurrency
    input: 32
    output: 32
    levels:
      - {{concurrency: 1, requests: 4}}
      - {{concurrency: 2, requests: 6}}
      - {{concurrency: 4, requests: 8}}
    repeats: 3
    warmup: 1
slos:
  - {{id: chat, figure: ttft, percentile: p50, below_ms: 1000}}
not_measured:
  - other machines, other models, answer quality
"""


def demo(out: Path, *, open_site: bool) -> None:
    """Writes a plan into `out`, measures it, builds the site beside it and opens it; a second time it goes on."""
    from genreport.publish import publish
    from genreport.runner import run

    if find_spec("xllamacpp") is None:
        raise EngineError("the embedded llama.cpp is not installed", cure="pip install 'genreport[llamacpp]'")
    out.mkdir(parents=True, exist_ok=True)
    plan, recorded, site = out / "plan.yaml", out / "runs" / "demo", out / "site"
    begun = (recorded / rounds.HEAD).is_file()
    if not begun:
        plan.write_text(_plan(), encoding="utf-8")
    if not begun or not _whole(recorded):
        run(plan, recorded, resume=begun)
    publish([recorded], site)
    index = (site / "index.html").resolve()
    print(f"The site is {index}")
    if open_site:
        webbrowser.open(index.as_uri())


def _plan() -> str:
    # a JSON string is a YAML string, whatever is in it
    python, model = (json.dumps(str(path), ensure_ascii=False) for path in (sys.executable, model_file()))
    return PLAN.format(port=_free_port(), python=python, model=model)


def _whole(recorded: Path) -> bool:
    """Whether nothing is left to measure; an engine that was given up leaves something, though its round is sealed."""
    found = rounds.Round(recorded)
    return found.sealed and not found.unsealed


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
