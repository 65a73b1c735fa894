"""Levels against the hardware's ceilings: floor and attainment, bytes and FLOPs, marginal cost of one more request."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.figures.book import Book
from genreport.figures.layout import LevelView
from genreport.figures.samples import LAGS
from genreport.words import say

# below this share of the asked concurrency the floor is also given for the running mean
FULL = 0.9
BY_MODEL = ("by_model",)


def floor(weights: float, c: float, input: float, output: float, kv: float, bandwidth: float) -> float:
    """Shortest possible decode step: weights once, and the KV of C sequences at their mean context."""
    return (weights + c * sequence_bytes(input, output, kv)) / bandwidth


def sequence_bytes(input: float, output: float, kv: float) -> float:
    """KV of one sequence at its mean context over the decode phase: the prompt and half the answer."""
    return (input + output / 2) * kv


def sequence_time(input: float, output: float, kv: float, bandwidth: float) -> float:
    """Time in which the memory delivers that KV."""
    return sequence_bytes(input, output, kv) / bandwidth


def attainment(floor: float, itl: float) -> float:
    """Share of the memory roof that the measured step reaches."""
    return floor / itl


def marginal_cost(last: float, first: float, cmax: float, cmin: float) -> float:
    """What one more request in the batch costs each step."""
    return (last - first) / (cmax - cmin)


def model_read_bytes(iterations: float, weights: float, kv: float, tokens: float, input: float, output: float) -> float:
    """Weights once an iteration, and for each token the KV of its mean context."""
    return iterations * weights + tokens * sequence_bytes(input, output, kv)


def model_flops(
    body: float, parameters: float, layers: float, hidden: float, prompt: float, tokens: float, input: float,
    output: float,
) -> float:  # fmt: skip
    """Two a parameter and token, the output head for generated tokens alone; and attention over their mean context."""
    context = prompt * input / 2 + tokens * (input + output / 2)
    return 2 * (body * (prompt + tokens) + (parameters - body) * tokens) + 4 * layers * hidden * context


STEP = "weights + c * (input + output / 2) * kv"
FLOOR = f"({STEP}) / bandwidth"
READ = "iterations * weights + tokens * (input + output / 2) * kv"
FLOPS = ("2 * (body * (prompt + tokens) + (parameters - body) * tokens)"
         " + 4 * layers * hidden * (prompt * input / 2 + tokens * (input + output / 2))")  # fmt: skip


def enter(book: Book, level: LevelView, engine: str) -> None:
    """Roofline figures of a level; `engine` is the scope of its engine."""
    id = level.id
    shape = {"input": f"{id}.input", "output": f"{id}.output"}
    memory = {"weights": f"{engine}.weights_bytes", "kv": f"{engine}.kv_bytes_per_token",
              "bandwidth": f"{engine}.bandwidth"}  # fmt: skip
    book.derive(f"{id}.floor_s", "s", FLOOR, floor, c=f"{id}.concurrency", **memory, **shape)
    running, c = book.value(f"{id}.running.mean"), book.value(f"{id}.concurrency")
    # a gauge that lags is too low beside long iterations: it does not tell that fewer ran
    told = running is not None and LAGS not in book[f"{id}.running.mean"].notes
    if told and (c is None or running < FULL * c):
        book.derive(f"{id}.floor_running_s", "s", FLOOR, floor, c=f"{id}.running.mean", **memory, **shape)
    book.derive(f"{id}.attainment", "share", "floor / itl", attainment, floor=f"{id}.floor_s", itl=f"{id}.itl.p50")
    _read_bytes(book, id, engine, shape)
    _flops(book, id, engine, shape)
    windows = [f"{s}.window_s" for s, _, rows in level.each() if len(rows.measured)]
    for share, moved, ceiling in (("mbu", "read_bytes", "bandwidth"), ("mfu", "flops", "flops_ceiling")):
        book.derive(f"{id}.{share}", "share", "moved / sum(windows) / ceiling",
                    lambda moved, windows, ceiling: moved / windows.sum() / ceiling,
                    moved=f"{id}.{moved}", windows=windows, ceiling=f"{engine}.{ceiling}")  # fmt: skip
    book.derive(f"{id}.intensity", "FLOP/byte", "flops / bytes", lambda flops, bytes: flops / bytes,
                flops=f"{id}.flops", bytes=f"{id}.read_bytes")  # fmt: skip


def _read_bytes(book: Book, id: str, engine: str, shape: dict[str, str]) -> None:
    if book.value(f"{id}.counted_read_bytes"):
        book.derive(f"{id}.read_bytes", "bytes", "counted", lambda counted: counted,
                    counted=f"{id}.counted_read_bytes")  # fmt: skip
    elif f"{id}.iterations" in book.ledger:
        book.derive(f"{id}.read_bytes", "bytes", READ, model_read_bytes, notes=BY_MODEL,
                    iterations=f"{id}.iterations", weights=f"{engine}.weights_bytes",
                    kv=f"{engine}.kv_bytes_per_token", tokens=f"{id}.output_tokens", **shape)  # fmt: skip
    else:
        book.missing(f"{id}.read_bytes", "bytes", READ, say("missing.no_iterations"))


def _flops(book: Book, id: str, engine: str, shape: dict[str, str]) -> None:
    """As the engine counts them, and the count over the model's; else by the model."""
    counted = f"{id}.counted_flops"
    model = {"body": f"{engine}.parameters_body", "parameters": f"{engine}.parameters_read",
             "layers": f"{engine}.layers", "hidden": f"{engine}.hidden", "prompt": f"{id}.prompt_tokens",
             "tokens": f"{id}.output_tokens", **shape}  # fmt: skip
    if book.value(counted):
        book.derive(f"{id}.flops", "FLOP", "counted", lambda counted: counted, counted=counted)
        book.derive(f"{id}.flops_over_model", "ratio", f"counted / ({FLOPS})",
                    lambda counted, **of: counted / model_flops(**of), counted=counted, **model)  # fmt: skip
    else:
        book.derive(f"{id}.flops", "FLOP", FLOPS, model_flops, notes=BY_MODEL, **model)


def enter_sweep(book: Book, scope: str, levels: Sequence[LevelView], engine: str) -> None:
    """Marginal cost of a sweep and its ratio to the KV that a sequence must read; counted bytes against the model's."""
    _counted(book, scope, levels[0].id, engine)
    ends = [level for level in levels if book.value(f"{level.id}.itl.p50")]
    cost, over = f"{scope}.marginal_cost_s", f"{scope}.marginal_over_kv"
    formula = "(last - first) / (cmax - cmin)"
    if len(ends) < 2:
        book.missing(cost, "s", formula, say("missing.one_level"))
        book.missing(over, "ratio", "cost / ((input + output / 2) * kv / bandwidth)", say("missing.one_level"))
        return
    first, last = ends[0].id, ends[-1].id
    book.derive(cost, "s", formula, marginal_cost, last=f"{last}.itl.p50", first=f"{first}.itl.p50",
                cmax=f"{last}.concurrency", cmin=f"{first}.concurrency")  # fmt: skip
    book.derive(over, "ratio", "cost / ((input + output / 2) * kv / bandwidth)", over_kv, cost=cost,
                input=f"{last}.input", output=f"{last}.output", kv=f"{engine}.kv_bytes_per_token",
                bandwidth=f"{engine}.bandwidth")  # fmt: skip


def _counted(book: Book, scope: str, level: str, engine: str) -> None:
    """What the engine's counter says an iteration of the first level reads, over what the model says."""
    id = f"{scope}.read_over_model"
    if not book.value(f"{level}.counted_read_bytes"):
        book.missing(id, "ratio", f"read / ({STEP})", say("missing.no_bytes"))
        return
    book.derive(id, "ratio", f"read / ({STEP})", lambda read, weights, c, input, output, kv: read / (
        weights + c * sequence_bytes(input, output, kv)), read=f"{scope}.read_bytes_per_step",
        weights=f"{engine}.weights_bytes", kv=f"{engine}.kv_bytes_per_token", c=f"{level}.concurrency",
        input=f"{level}.input", output=f"{level}.output")  # fmt: skip


def over_kv(cost: float, input: float, output: float, kv: float, bandwidth: float) -> float:
    """Marginal cost as a multiple of the time one sequence's KV takes to read."""
    return cost / sequence_time(input, output, kv, bandwidth)
