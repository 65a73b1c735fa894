"""The data of the guide's two calculators, what fits and what it costs, in the form of a chart's data.

docs/assets/guide.js reads it; as in a chart, each number stands beside the id of its figure, and the audit holds it to that.
"""

from __future__ import annotations

import json

from genreport.figures import Figures, TestView
from genreport.figures.choosing import WAIT
from genreport.figures.layout import engine_scope
from genreport.figures.pricing import KEYS, SCOPE
from genreport.provenance import Quantity
from genreport.reports.choices import Choice
from genreport.reports.rows import Row

# figure of the calculator's data -> figure of the engine's start
COEFFICIENTS = {
    "weights": "tensor_bytes", "kv": "kv_bytes_per_token", "pool": "pool_tokens", "length": "max_model_len",
    "slots": "slots", "model": "model_context",
}  # fmt: skip


def costs(figures: Figures, choices: list[Choice]) -> str:
    """The throughputs and prices of the cost table as JSON, in the form of a chart's data."""
    cells = (cell.throughput for choice in choices for cell in choice.cells)
    prices = _numbers(**{key: figures.ledger.get(f"{SCOPE}.{key}") for key in KEYS})
    throughputs = [row for q in cells if (row := _numbers(throughput=q))]
    return json.dumps({"datasets": {"throughputs": throughputs, "prices": [prices]}}, separators=(",", ":"))


def calculator(figures: Figures, test: TestView) -> str:
    """The coefficients of docs/assets/guide.js as JSON, in the form of a chart's data: the audit holds each to its figure."""
    engines = [_coefficients(figures, test, engine) for engine in test.engines]
    levels = [_level(figures, engine, level.id) for engine in test.engines for level in test.levels_of(engine)]
    memory = figures.ledger.get("machine.card_memory") or figures.ledger["machine.memory"]
    measured = [row for row in levels if "throughput" in row]
    datasets = {"engines": engines, "levels": measured, "machine": [_numbers(memory=memory)]}
    return json.dumps({"datasets": datasets}, ensure_ascii=False, separators=(",", ":"))


def _coefficients(figures: Figures, test: TestView, engine: str) -> Row:
    first, fig = test.levels_of(engine)[0].id, figures.ledger.get
    start = engine_scope(figures.starts, test.levels_of(engine)[0])
    found = {name: fig(f"{start}.{figure}") for name, figure in COEFFICIENTS.items()}
    found |= {"ttft": fig(f"{first}.ttft.p50"), "itl": fig(f"{first}.itl.p50"), "input": fig(f"{first}.input"),
              "output": fig(f"{first}.output")}  # fmt: skip
    return {"engine": engine} | _numbers(**found)


def _level(figures: Figures, engine: str, level: str) -> Row:
    names = {"concurrency": "concurrency", "throughput": "output_throughput", "wait": WAIT, "itl": "itl.p50"}
    if figures.ledger.value(f"{level}.failed"):
        names |= {"failed": "failed", "all": "all_requests"}
    found = _numbers(**{name: figures.ledger.get(f"{level}.{figure}") for name, figure in names.items()})
    return {"engine": engine} | found


def _numbers(**given: Quantity | None) -> Row:
    """Values beside the ids of their figures, as in a row of a chart; what is missing is left out."""
    known = {name: q for name, q in given.items() if q is not None and not q.missing}
    return {key: v for name, q in known.items() for key, v in ((name, q.value), (f"{name}_id", q.id))}
