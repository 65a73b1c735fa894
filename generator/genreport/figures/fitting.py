"""Does it fit? Memory, KV and time of a load nobody measured, by the arithmetic of one that was.

docs/assets/guide.js repeats these functions in the page; tests/test_report_guide.py holds both against each other.
"""

from __future__ import annotations

from genreport.figures.book import Absent, Book
from genreport.figures.layout import EngineView
from genreport.words import say

# the load of the example that the guide works out: so many requests at once, each with so many tokens of prompt and answer
USERS, CONTEXT = 16, 8192


def kv(users: float, context: float, kv_bytes: float) -> float:
    """Bytes of KV that so many requests need at their full length."""
    return users * context * kv_bytes


def held(pool: float, context: float) -> float:
    """Requests of that length that a pool of so many tokens holds at once."""
    if not context:
        raise Absent(say("missing.empty_request"))
    return pool / context


def needed(weights: float, users: float, context: float, kv_bytes: float) -> float:
    """Bytes of the weights and of that load's KV; compute buffers and the engine itself come on top."""
    return weights + kv(users, context, kv_bytes)


def prefill(ttft: float, measured: float, input: float) -> float:
    """Seconds to read a prompt of another length, as if they grew with its tokens."""
    return ttft * input / measured


def decode(itl: float, output: float) -> float:
    """Seconds from the first token of an answer to its last."""
    return (output - 1) * itl


def verdict(
    users: float,
    context: float,
    *,
    model: float | None = None,
    length: float | None = None,
    slots: float | None = None,
    pool: float | None = None,
) -> str:
    """The first limit of a launch that a load breaks: `model`, `length`, `slots`, `pool`; `fits`; `unknown`."""
    limits = {"model": (context, model), "length": (context, length), "slots": (users, slots),
              "pool": (users * context, pool)}  # fmt: skip
    broken = (name for name, (asked, limit) in limits.items() if limit is not None and asked > limit)
    return next(broken, "unknown" if pool is None else "fits")


def enter_engine(book: Book, engine: EngineView) -> None:
    """What one engine's memory is made of, and what half the context would hold."""
    scope, file = f"engine.{engine.id}", engine.facts.model_facts
    model = book.round.models.get(file) if file else None
    tensors = [f"{scope}.tensor.{k}" for k in range(len(model.tensors))] if model else []
    if tensors:
        book.derive(f"{scope}.tensor_bytes", "bytes", "sum(parts)", lambda parts: parts.sum(), parts=tensors,
                    n=len(tensors))  # fmt: skip
        book.pointer(f"{scope}.model_context", "tokens", file, "/architecture/context",
                     reason=say("missing.model_silent"))  # fmt: skip
    else:
        for name, unit in (("tensor_bytes", "bytes"), ("model_context", "tokens")):
            book.missing(f"{scope}.{name}", unit, "field", say("missing.no_model"))
    book.derive(f"{scope}.full_context_bytes", "bytes", "length * kv_bytes", lambda length, kv_bytes: kv(1, length, kv_bytes),
                length=f"{scope}.max_model_len", kv_bytes=f"{scope}.kv_bytes_per_token")  # fmt: skip
    book.derive(f"{scope}.half_residents", "1", "tokens / (length / 2)", lambda tokens, length: held(tokens, length / 2),
                tokens=f"{scope}.pool_tokens", length=f"{scope}.max_model_len")  # fmt: skip


def enter_load(book: Book, scope: str, level: str, engine: str) -> None:
    """What the largest load of a sweep needs by arithmetic; `scope` is the sweep's, `engine` the engine's."""
    shape = {"input": f"{level}.input", "output": f"{level}.output"}
    book.derive(f"{scope}.needed_bytes", "bytes", "weights + c * (input + output) * kv_bytes",
                lambda weights, c, input, output, kv_bytes: needed(weights, c, input + output, kv_bytes),
                weights=f"{engine}.tensor_bytes", c=f"{level}.concurrency", kv_bytes=f"{engine}.kv_bytes_per_token",
                **shape)  # fmt: skip
    book.derive(f"{scope}.held", "1", "pool / (input + output)", lambda pool, input, output: held(pool, input + output),
                pool=f"{engine}.pool_tokens", **shape)  # fmt: skip


def enter_example(book: Book, scope: str, engine: str) -> None:
    """Whether the memory of the machine, or of its card, would take a load that people ask about."""
    card = book.value("machine.card_memory")
    memory = "machine.memory" if card is None else "machine.card_memory"
    book.derive(f"{scope}.example_kv_bytes", "bytes", f"{USERS} * {CONTEXT} * kv_bytes",
                lambda kv_bytes: kv(USERS, CONTEXT, kv_bytes), kv_bytes=f"{engine}.kv_bytes_per_token")  # fmt: skip
    book.derive(f"{scope}.example_bytes", "bytes", "weights + kv", lambda weights, kv: weights + kv,
                weights=f"{engine}.tensor_bytes", kv=f"{scope}.example_kv_bytes")  # fmt: skip
    book.derive(f"{scope}.example_left_bytes", "bytes", "memory - needed", lambda memory, needed: memory - needed,
                memory=memory, needed=f"{scope}.example_bytes")  # fmt: skip


def enter_shape(book: Book, scope: str, level: str) -> None:
    """The share of one request's time that goes into its prompt, at the lowest load of a sweep."""
    book.derive(f"{scope}.prefill_share", "share", "ttft / (ttft + (output - 1) * itl)",
                lambda ttft, output, itl: ttft / (ttft + decode(itl, output)),
                ttft=f"{level}.ttft.p50", output=f"{level}.output", itl=f"{level}.itl.p50")  # fmt: skip
