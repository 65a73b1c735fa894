"""An engine at rest: its byte account by tensor group, KV per token, pool, ceilings, and how long it took to start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from genreport import startlog
from genreport.figures.book import Absent, Book
from genreport.figures.layout import EngineView
from genreport.records import ModelFacts, Tensor
from genreport.rounds import MACHINE

GROUPS = ("embedding", "attention", "mlp", "norm", "output", "other")
# one rule for GGUF and Hugging Face names; the first that matches decides
_RULES = (
    ("norm", r"norm|(^|\.)ln_?[\df]"),
    ("attention", r"attn|attention"),
    ("mlp", r"mlp|ffn|feed_forward|experts"),
    ("output", r"(^|\.)(lm_head|output|embed_out)\."),
    ("embedding", r"embd|embed|(^|\.)w[tp]e\."),
)


def group(name: str) -> str:
    """Which part of the model a tensor belongs to."""
    return next((group for group, rule in _RULES if re.search(rule, name.lower())), "other")


def read_per_step(tensors: Sequence[Tensor], tied: bool | None) -> list[int]:
    """Places of the tensors a decode step reads: all but a table that is only looked up.

    Without an output head of its own the embedding table is read as the head, and counts once.
    """
    heads = [k for k, tensor in enumerate(tensors) if group(tensor.name) == "output"]
    if not heads and tied is not False:
        return list(range(len(tensors)))
    return [k for k, tensor in enumerate(tensors) if group(tensor.name) != "embedding"]


def kv_bytes_per_token(layers: float, kv_heads: float, head_dim: float, bytes: float) -> float:
    """Keys and values of one token over all layers."""
    return 2 * layers * kv_heads * head_dim * bytes


def enter(book: Book, engine: EngineView) -> None:
    """Everything of `engine.<id>`."""
    scope = f"engine.{engine.id}"
    _weights(book, scope, engine)
    _kv(book, scope, engine)
    _pool(book, scope, engine)
    _ceilings(book, scope, engine)
    launch = book.round.launch_file(engine.launch)
    book.pointer(f"{scope}.start_s", "s", launch, "/ready_us", formula="field / 1e6", function=lambda us: us / 1e6,
                 reason="the engine was already running")  # fmt: skip


def _weights(book: Book, scope: str, engine: EngineView) -> None:
    file = engine.facts.model_facts
    model = book.round.models.get(file) if file else None
    if model is None or not model.tensors:
        for name in ("file_bytes", "weights_bytes", "parameters", "parameters_read"):
            unit = "bytes" if name.endswith("bytes") else "count"
            book.missing(f"{scope}.{name}", unit, "sum(tensors)", "no model files were named in the plan")
        return
    _files(book, scope, file, model)
    for k in range(len(model.tensors)):
        book.pointer(f"{scope}.tensor.{k}", "bytes", file, f"/tensors/{k}/bytes")
        book.pointer(f"{scope}.tensor.{k}.elements", "count", file, f"/tensors/{k}/shape", formula="prod(field)",
                     function=_product)  # fmt: skip
    _groups(book, scope, model)
    kept = read_per_step(model.tensors, model.architecture.tied_embeddings)
    tied = any(group(model.tensors[k].name) == "embedding" for k in kept)
    notes = [
        *(["tied_embeddings_read_as_output"] if tied else []),
        *(["all_experts_counted"] if any("exp" in t.name.lower().split(".weight")[0] for t in model.tensors) else []),
    ]
    _sum(book, f"{scope}.weights_bytes", "bytes", [f"{scope}.tensor.{k}" for k in kept], notes)
    _sum(book, f"{scope}.parameters_read", "count", [f"{scope}.tensor.{k}.elements" for k in kept], notes)
    everything = [f"{scope}.tensor.{k}.elements" for k in range(len(model.tensors))]
    _sum(book, f"{scope}.parameters", "count", everything)


def _files(book: Book, scope: str, file: str, model: ModelFacts) -> None:
    ids = [f"{scope}.file.{k}" for k in range(len(model.files))]
    for k, id in enumerate(ids):
        book.pointer(id, "bytes", file, f"/files/{k}/bytes")
    _sum(book, f"{scope}.file_bytes", "bytes", ids)


def _groups(book: Book, scope: str, model: ModelFacts) -> None:
    for name in GROUPS:
        ids = [f"{scope}.tensor.{k}" for k, tensor in enumerate(model.tensors) if group(tensor.name) == name]
        if ids:
            _sum(book, f"{scope}.bytes_{name}", "bytes", ids)


def _sum(book: Book, id: str, unit: str, ids: Sequence[str], notes: Sequence[str] = ()) -> None:
    book.derive(id, unit, "sum(parts)", lambda parts: parts.sum(), parts=ids, n=len(ids), notes=notes)


def _product(shape: Sequence[int]) -> float:
    product = 1
    for side in shape:
        product *= side
    return float(product)


def _kv(book: Book, scope: str, engine: EngineView) -> None:
    file = engine.facts.model_facts
    for name in ("layers", "hidden", "heads", "kv_heads", "head_dim"):
        if file in book.round.models:
            book.pointer(f"{scope}.{name}", "count", file, f"/architecture/{name}", reason="the model files do not say")
        else:
            book.missing(f"{scope}.{name}", "count", "field", "no model files were named in the plan")
    book.pointer(f"{scope}.kv_bytes_per_element", "bytes", book.round.launch_file(engine.launch),
                 "/kv_bytes_per_element")  # fmt: skip
    book.derive(f"{scope}.kv_bytes_per_token", "bytes", "2 * layers * kv_heads * head_dim * bytes", kv_bytes_per_token,
                layers=f"{scope}.layers", kv_heads=f"{scope}.kv_heads", head_dim=f"{scope}.head_dim",
                bytes=f"{scope}.kv_bytes_per_element")  # fmt: skip


def _pool(book: Book, scope: str, engine: EngineView) -> None:
    file = book.round.start_log_file(engine.launch)
    said = {fact.name: fact for fact in startlog.facts(book.round.text(file))} if file else {}
    why = "the start-up log does not say" if file else "no start-up log"
    for name, unit in (("max_model_len", "tokens"), ("slots", "count"), ("context_tokens", "tokens"),
                       ("batch_tokens", "tokens"), ("kv_bytes", "bytes"), ("model_bytes", "bytes"),
                       ("compute_bytes", "bytes"), ("graph_bytes", "bytes"), ("engine_start_s", "s")):  # fmt: skip
        book.stated(f"{scope}.{name}", unit, file, said.get(name), why)
    unified = "unified" in said and said["unified"].value == 1
    if engine.facts.kind == "llamacpp" and unified and "context_tokens" in said:
        book.stated(f"{scope}.pool_tokens", "tokens", file, said["context_tokens"], why)
    elif engine.facts.kind == "llamacpp" and unified:
        book.stated(f"{scope}.pool_tokens", "tokens", file, said.get("max_model_len"), why)
    elif engine.facts.kind == "llamacpp":
        book.derive(f"{scope}.pool_tokens", "tokens", "slots * length", lambda slots, length: slots * length,
                    slots=f"{scope}.slots", length=f"{scope}.max_model_len")  # fmt: skip
    else:
        book.stated(f"{scope}.pool_tokens", "tokens", file, said.get("pool_tokens"), why)
    announced = said.get("slots" if engine.facts.kind == "llamacpp" else "announced_concurrency")
    book.stated(f"{scope}.announced_concurrency", "1", file, announced, why)
    book.derive(
        f"{scope}.pool_bytes",
        "bytes",
        "tokens * kv",
        pool_bytes,
        tokens=f"{scope}.pool_tokens",
        kv=f"{scope}.kv_bytes_per_token",
    )
    book.derive(f"{scope}.residents", "1", "tokens / length", residents,
                tokens=f"{scope}.pool_tokens", length=f"{scope}.max_model_len")  # fmt: skip


def pool_bytes(tokens: float, kv: float) -> float:
    """The pool in bytes, by arithmetic; engines may report another number."""
    return tokens * kv


def demand(c: float, input: float, output: float, kv: float) -> float:
    """KV that C requests need at their full length."""
    return c * (input + output) * kv


def over_announced(running: float, announced: float) -> float:
    """How far the mean number of running requests lies above the announced concurrency: 0 = on it."""
    return running / announced - 1


def preemption_share(preemptions: float, tokens: float, requests: float) -> float:
    """Preemptions as a share of all intervals between tokens: above this percentile they can show in ITL."""
    return preemptions / (tokens - requests)


def residents(tokens: float, length: float) -> float:
    """Sequences of the longest allowed length that the pool holds."""
    if not length:
        raise Absent("the announced length is zero")
    return tokens / length


def _ceilings(book: Book, scope: str, engine: EngineView) -> None:
    ceilings = book.round.machine.ceilings.get(engine.engine, {})
    escaped = engine.engine.replace("~", "~0").replace("/", "~1")
    for figure, name, unit in (("bandwidth", "bandwidth", "bytes/s"), ("flops_ceiling", "flops", "FLOP/s")):
        ceiling = ceilings.get(name)
        if ceiling is None:
            book.missing(f"{scope}.{figure}", unit, "field", f"no ceiling of {name} was measured or cited")
            continue
        notes = [
            *(["measured_ceiling"] if ceiling.source.startswith("measured") else ["cited_ceiling"]),
            *(["lower_bound"] if ceiling.lower_bound else []),
        ]
        book.pointer(f"{scope}.{figure}", unit, MACHINE, f"/ceilings/{escaped}/{name}/value", notes=notes)
