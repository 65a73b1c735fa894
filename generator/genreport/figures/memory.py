"""What the memory of a start is made of, by its own start-up log, held against what was measured while it served.

Every statement of a log is a figure of its own, `engine.<id>.memory.<place>.<part>.<who>`: a rank, a device. The place is
`card` (memory of GPUs) or `host` (memory of processes).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from genreport import startlog
from genreport.figures.book import Book
from genreport.figures.layout import EngineView, LevelView
from genreport.startlog import CARD, HOST, PARTS, Fact
from genreport.words import say

PLACES = (CARD, HOST)
# what was sampled of each place while a level ran
SAMPLED = {CARD: "gpu_memory", HOST: "memory"}
# sums over both places, by the names that other figures know them under
SUMS = {"model_bytes": "weights", "kv_bytes": "kv", "compute_bytes": "compute", "graph_bytes": "graphs"}
PARALLEL = ("tensor_parallel", "pipeline_parallel", "data_parallel")
# a hostile log may name any number of devices
MOST = 256


def unexplained(measured: float, stated: float) -> float:
    """What the log does not account for; below zero where it states more than was resident."""
    return measured - stated


def unexplained_share(measured: float, stated: float) -> float:
    """The same as a share of what was measured."""
    return (measured - stated) / measured


# ------------------------------------------------------------------------------------- what the log states


def enter(book: Book, engine: EngineView) -> None:
    """Every statement about memory, the parts of each place and their sums."""
    scope = f"engine.{engine.id}"
    file = book.round.start_log_file(engine.launch)
    log = book.round.text(file) if file else ""
    ranks = _ranks(book, scope, file, log) if engine.facts.kind == "vllm" else None
    said = startlog.memory(log, engine.facts.kind)
    why = say("missing.start_log_silent" if file else "missing.no_start_log")
    for place in PLACES:
        own = [fact for fact in said if fact.place == place]
        if own:
            _place(book, f"{scope}.memory.{place}", file, own, ranks, _silent(engine, log))
    for name, part in SUMS.items():
        ids = [id for place in PLACES if (id := f"{scope}.memory.{place}.{part}") in book.ledger]
        stated = [id for id in ids if book.value(id) is not None]
        if stated or ids:
            book.derive(f"{scope}.{name}", "bytes", "sum(parts)", lambda parts: parts.sum(), parts=stated or ids[:1])
        else:
            book.missing(f"{scope}.{name}", "bytes", "sum(parts)", why)


def _silent(engine: EngineView, log: str) -> dict[str, str]:
    """Why a part of the memory is not stated, where more can be said than that the log is silent."""
    reasons = {"kv": say("missing.kv_override")} if re.search(startlog.OVERRIDE, log) else {}
    if engine.facts.kind == "llamacpp":
        reasons["graphs"] = say("memory.llamacpp_graphs")
    return reasons


def _ranks(book: Book, scope: str, file: str | None, log: str) -> int | None:
    """How many processes hold a share of the model, `None` where the log does not say."""
    said = {fact.name: fact for fact in startlog.facts(log) if fact.name in PARALLEL}
    for name, fact in said.items():
        book.stated(f"{scope}.{name}", "count", file, fact, "")
    if not said:
        why = say("missing.start_log_silent" if file else "missing.no_start_log")
        book.missing(f"{scope}.ranks", "count", "prod(factors)", why)
        return None
    book.derive(f"{scope}.ranks", "count", "prod(factors)", lambda factors: factors.prod(),
                factors=[f"{scope}.{name}" for name in said])  # fmt: skip
    return int(book.value(f"{scope}.ranks"))


def _place(book: Book, id: str, file: str, said: Sequence[Fact], ranks: int | None, silent: dict[str, str]) -> None:
    for part in dict.fromkeys([*PARTS, *(fact.name for fact in said)]):
        own = [fact for fact in said if fact.name == part]
        if part in silent or not own:
            continue
        _part(book, f"{id}.{part}", file, own, ranks)
    if f"{id}.consumed" in book.ledger and f"{id}.other" not in book.ledger:
        weights = f"{id}.weights" if f"{id}.weights" in book.ledger else ()
        book.derive(f"{id}.other", "bytes", "consumed - weights", lambda consumed, weights: consumed - weights,
                    consumed=f"{id}.consumed", weights=weights)  # fmt: skip
    for part in PARTS:
        if f"{id}.{part}" not in book.ledger:
            book.missing(f"{id}.{part}", "bytes", "sum(parts)", silent.get(part, say("missing.start_log_silent")))
    known = book.observed(f"{id}.{part}" for part in PARTS)
    book.derive(f"{id}.stated", "bytes", "sum(parts)", lambda parts: parts.sum(), n=len(known), parts=known)


def _part(book: Book, id: str, file: str, said: Sequence[Fact], ranks: int | None) -> None:
    """The sum over ranks or devices; where one rank speaks, times their number; where some do, none."""
    formula, n = "sum(parts)", len(said)
    if n > MOST:
        book.missing(id, "bytes", formula, say("memory.too_many"))
        return
    for fact in said:
        book.stated(f"{id}.{fact.who}", "bytes", file, fact, "")
    parts = [f"{id}.{fact.who}" for fact in said]
    if ranks in (None, n) or said[0].whole:
        book.derive(id, "bytes", formula, lambda parts: parts.sum(), n=n, parts=parts)
    elif n == 1:
        book.derive(id, "bytes", f"{formula} * ranks", lambda parts, ranks: parts.sum() * ranks, n=n, parts=parts,
                    ranks=f"{id.partition('.memory.')[0]}.ranks", notes=["one_rank_stated"])  # fmt: skip
    else:
        book.missing(id, "bytes", formula, say("memory.some_ranks", stated=n, ranks=ranks))


# ------------------------------------------------------------------------------------- what was measured


def enter_measured(book: Book, engine: EngineView, levels: Sequence[LevelView]) -> None:
    """The largest memory that was sampled while the start served, and what of it the log does not account for."""
    for place in PLACES:
        id = f"engine.{engine.id}.memory.{place}"
        sampled = book.observed(f"{level.id}.{SAMPLED[place]}.max" for level in levels)
        if not sampled and f"{id}.stated" not in book.ledger:
            continue
        if sampled:
            book.derive(f"{id}.measured", "bytes", "max(levels)", lambda levels: levels.max(), n=len(sampled),
                        levels=sampled)  # fmt: skip
        else:
            book.missing(f"{id}.measured", "bytes", "max(levels)", say(f"memory.unsampled_{place}"))
        if f"{id}.stated" not in book.ledger:
            for name in (*PARTS, "stated"):
                book.missing(f"{id}.{name}", "bytes", "sum(parts)", say("memory.nothing_stated"))
        both = {"measured": f"{id}.measured", "stated": f"{id}.stated"}
        book.derive(f"{id}.unexplained", "bytes", "measured - stated", unexplained, **both)
        book.derive(f"{id}.unexplained_share", "share", "(measured - stated) / measured", unexplained_share, **both)
