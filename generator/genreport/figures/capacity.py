"""An engine at rest: its byte account by tensor group, KV per token, pool, ceilings, and how long it took to start."""

from __future__ import annotations

import re
from collections.abc import Sequence

from genreport import startlog
from genreport.figures.book import Absent, Book
from genreport.figures.layout import EngineView
from genreport.records import ModelFacts, Tensor
from genreport.rounds import MACHINE
from genreport.startlog import Fact
from genreport.words import say

KV_FORMULA = "2 * layers * kv_heads * head_dim * bytes"
GROUPS = ("embedding", "attention", "mlp", "norm", "output", "other")
# one rule for GGUF and Hugging Face names; the first that matches decides
_RULES = (
    ("norm", r"norm|(^|\.)ln_?[\df]"),
    ("attention", r"attn|attention"),
    ("mlp", r"mlp|ffn|feed_forward|expert|moe"),
    ("output", r"(^|\.)(lm_head|embed_out)\.|^output\."),
    ("embedding", r"embd|embed|(^|\.)w[tp]e\."),
)
# the table that is read as the output head where a model has none of its own; other tables are only looked up
_TABLE = re.compile(r"(^|\.)(token_embd|embed_tokens|tok_embeddings|word_embeddings|embed_in|wte)\.")
# what sees and hears for a model: a step of text reads none of it
_TOWER = re.compile(
    r"(^|\.)(vision_tower|vision_model|vision_encoder|visual|audio_tower|audio_model|audio_encoder|multi_modal_projector"
    r"|mm_projector|embed_vision|embed_audio)\.|^(v|a|mm)\."
)
_EXPERT = re.compile(r"expert|_exps")
# an element of these holds several weights
_PACKED = re.compile(r"(qweight|weight_packed|_blocks)$")


def group(name: str) -> str:
    """Which part of the model a tensor belongs to; what sees and hears is one of the others."""
    if _TOWER.search(name.lower()):
        return "other"
    return next((group for group, rule in _RULES if re.search(rule, name.lower())), "other")


def read_per_step(tensors: Sequence[Tensor], tied: bool | None) -> list[int]:
    """Places of the tensors a decode step of text reads: all but tables that are only looked up, and what sees and hears.

    Without an output head of its own the embedding table is read as the head, and counts once.
    """
    own = [k for k, tensor in enumerate(tensors) if not _TOWER.search(tensor.name.lower())]
    groups = {k: group(tensors[k].name) for k in own}
    as_head: set[int] = set()
    if "output" not in groups.values() and tied is not False:
        tables = [k for k in own if groups[k] == "embedding"]
        as_head = {k for k in tables if _TABLE.search(tensors[k].name.lower())} or set(tables)
    return [k for k in own if groups[k] != "embedding" or k in as_head]


def packed(tensor: Tensor) -> bool:
    """Whether its elements are no weights but hold several each, as 4-bit formats of safetensors do."""
    name = tensor.name.lower()
    return bool(_PACKED.search(name)) or (tensor.dtype == "U8" and name.endswith(".weight"))


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
                 reason=say("missing.was_running"))  # fmt: skip


def _weights(book: Book, scope: str, engine: EngineView) -> None:
    file = engine.facts.model_facts
    model = book.round.models.get(file) if file else None
    if model is None or not model.tensors:
        for name in ("file_bytes", "weights_bytes", "parameters", "parameters_read", "parameters_body"):
            unit = "bytes" if name.endswith("bytes") else "count"
            book.missing(f"{scope}.{name}", unit, "sum(tensors)", say("missing.no_model"))
        return
    _files(book, scope, file, model)
    for k in range(len(model.tensors)):
        book.pointer(f"{scope}.tensor.{k}", "bytes", file, f"/tensors/{k}/bytes")
        book.pointer(f"{scope}.tensor.{k}.elements", "count", file, f"/tensors/{k}/shape", formula="prod(field)",
                     function=_product)  # fmt: skip
    _groups(book, scope, model)
    kept = read_per_step(model.tensors, model.architecture.tied_embeddings)
    names = [tensor.name.lower() for tensor in model.tensors]
    notes = [
        *(["tied_embeddings_read_as_output"] if any(group(names[k]) == "embedding" for k in kept) else []),
        *(["all_experts_counted"] if any(map(_EXPERT.search, names)) else []),
        *(["towers_not_read"] if any(map(_TOWER.search, names)) else []),
    ]
    _sum(book, f"{scope}.weights_bytes", "bytes", [f"{scope}.tensor.{k}" for k in kept], notes)
    _parameters(book, scope, model, kept, notes)


def _parameters(book: Book, scope: str, model: ModelFacts, kept: Sequence[int], notes: Sequence[str]) -> None:
    """Elements of all tensors, of those that a step reads, and of these without the output head; a scalar is a scale."""
    body = [k for k in kept if group(model.tensors[k].name) not in ("output", "embedding")]
    counted = {"parameters": (range(len(model.tensors)), ()), "parameters_read": (kept, notes),
               "parameters_body": (body, notes)}  # fmt: skip
    for name, (places, own) in counted.items():
        if any(map(packed, model.tensors)):
            book.missing(f"{scope}.{name}", "count", "sum(parts)", say("missing.packed"))
        else:
            ids = [f"{scope}.tensor.{k}.elements" for k in places if model.tensors[k].shape]
            _sum(book, f"{scope}.{name}", "count", ids, own)


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
            book.pointer(f"{scope}.{name}", "count", file, f"/architecture/{name}", reason=say("missing.model_silent"))
        else:
            book.missing(f"{scope}.{name}", "count", "field", say("missing.no_model"))
    book.pointer(f"{scope}.kv_bytes_per_element", "bytes", book.round.launch_file(engine.launch),
                 "/kv_bytes_per_element")  # fmt: skip
    model = book.round.models.get(file) if file else None
    kept = getattr(model.architecture, "attention", None) if model else None
    if kept not in (None, "full"):
        book.missing(f"{scope}.kv_bytes_per_token", "bytes", KV_FORMULA, say(f"missing.kv_{kept}"))
        return
    book.derive(f"{scope}.kv_bytes_per_token", "bytes", KV_FORMULA, kv_bytes_per_token,
                layers=f"{scope}.layers", kv_heads=f"{scope}.kv_heads", head_dim=f"{scope}.head_dim",
                bytes=f"{scope}.kv_bytes_per_element")  # fmt: skip


def _pool(book: Book, scope: str, engine: EngineView) -> None:
    file = book.round.start_log_file(engine.launch)
    log = book.round.text(file) if file else ""
    said = {fact.name: fact for fact in startlog.facts(log)}
    why = say("missing.start_log_silent" if file else "missing.no_start_log")
    for name, unit in (("max_model_len", "tokens"), ("slots", "count"), ("context_tokens", "tokens"),
                       ("batch_tokens", "tokens"), ("engine_start_s", "s")):  # fmt: skip
        book.stated(f"{scope}.{name}", unit, file, said.get(name), why)
    if engine.facts.kind == "llamacpp":
        _slots(book, scope, file, said, why)
    else:
        _blocks(book, scope, file, log, said)
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


def _slots(book: Book, scope: str, file: str | None, said: dict[str, Fact], why: str) -> None:
    """llama.cpp's pool: a fixed part for each slot, or one context that all share."""
    if "unified" in said and said["unified"].value == 1:
        whole = said.get("context_tokens") or said.get("max_model_len")
        book.stated(f"{scope}.pool_tokens", "tokens", file, whole, why)
    else:
        book.derive(f"{scope}.pool_tokens", "tokens", "slots * length", lambda slots, length: slots * length,
                    slots=f"{scope}.slots", length=f"{scope}.max_model_len")  # fmt: skip
    book.stated(f"{scope}.announced_concurrency", "1", file, said.get("slots"), why)


def _blocks(book: Book, scope: str, file: str | None, log: str, said: dict[str, Fact]) -> None:
    """vLLM's pool: as it states it, or its blocks times their size, in versions that state no more."""
    spoken = startlog.each(log)
    if "data_parallel" not in said or said["data_parallel"].value < 2:  # ranks of one engine, which uses the smallest
        spoken = {name: sorted(facts, key=lambda fact: fact.value)[:1] for name, facts in spoken.items()}
    if spoken["gpu_blocks"] and not spoken["pool_tokens"]:
        _over_engines(book, f"{scope}.gpu_blocks", "count", file, spoken["gpu_blocks"])
        book.stated(f"{scope}.block_size", "tokens", file, said.get("block_size"), say("missing.no_block_size"))
        book.derive(f"{scope}.pool_tokens", "tokens", "blocks * size", lambda blocks, size: blocks * size,
                    blocks=f"{scope}.gpu_blocks", size=f"{scope}.block_size")  # fmt: skip
    else:
        _over_engines(book, f"{scope}.pool_tokens", "tokens", file, spoken["pool_tokens"])
    _over_engines(book, f"{scope}.announced_concurrency", "1", file, spoken["announced_concurrency"])


def _over_engines(book: Book, id: str, unit: str, file: str | None, spoken: Sequence[Fact]) -> None:
    """What the engine states, or the sum over the engines of a data-parallel server."""
    if len(spoken) < 2:
        why = say("missing.start_log_silent" if file else "missing.no_start_log")
        book.stated(id, unit, file, next(iter(spoken), None), why)
        return
    for fact in spoken:
        book.stated(f"{id}.{fact.who}", unit, file, fact, "")
    _sum(book, id, unit, [f"{id}.{fact.who}" for fact in spoken])


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
        raise Absent(say("missing.length_zero"))
    return tokens / length


def _ceilings(book: Book, scope: str, engine: EngineView) -> None:
    ceilings = book.round.machine.ceilings.get(engine.engine, {})
    escaped = engine.engine.replace("~", "~0").replace("/", "~1")
    for figure, name, unit in (("bandwidth", "bandwidth", "bytes/s"), ("flops_ceiling", "flops", "FLOP/s")):
        ceiling = ceilings.get(name)
        if ceiling is None:
            book.missing(f"{scope}.{figure}", unit, "field", say(f"missing.no_ceiling_{name}"))
            continue
        notes = [
            *(["measured_ceiling"] if ceiling.source.startswith("measured") else ["cited_ceiling"]),
            *(["lower_bound"] if ceiling.lower_bound else []),
        ]
        book.pointer(f"{scope}.{figure}", unit, MACHINE, f"/ceilings/{escaped}/{name}/value", notes=notes)
