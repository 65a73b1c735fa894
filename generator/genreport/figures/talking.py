"""A level of conversations: how many were begun, and what each turn waits for as the conversation grows."""

from __future__ import annotations

import numpy as np

from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.latency import few, interpolated
from genreport.figures.layout import LevelView
from genreport.provenance import MEASURED
from genreport.words import say

# of a conversation so many turns have figures of their own
MOST_TURNS = 32


def enter(book: Book, level: LevelView) -> None:
    """What became of the conversations, and the median wait of each turn; for levels of conversations only."""
    if level.kind != "conversation":
        return
    first = level.repeats[0].facts_file
    for name, unit in (("turns", "count"), ("prefix", "tokens"), ("think_s", "s")):
        book.pointer(f"{level.id}.{name}", unit, first, f"/conversations/{name}")
    for name in ("begun", "unsent"):
        for scope, files, _ in level.each():
            book.pointer(f"{scope}.{name}", "count", files.facts_file, f"/conversations/{name}")
        book.derive(
            f"{level.id}.{name}", "count", "sum(repeats)", lambda repeats: repeats.sum(), repeats=level.ids(name)
        )
    for turn in turns_of(level):
        _turn(book, level, turn)


def turns_of(level: LevelView) -> range:
    """The turns that were planned, from 0."""
    told = level.repeats[0].facts.conversations
    return range(min(told.turns, MOST_TURNS) if told else 0)


def _turn(book: Book, level: LevelView, turn: int) -> None:
    """Completed requests of one turn over all repeats: how many, how long their prompts, how long their wait."""
    rows, where = level.measured, f"{MEASURED} and turn == {turn}"
    kept, scope = rows.only(rows.rows["turn"].to_numpy() == turn), f"{level.id}.turn{turn + 1}"
    book.enter(f"{scope}.completed", len(kept), "count", "count(index)",
               kept.source(range(min(1, len(kept))), where), n=len(kept))  # fmt: skip
    formula = "max(turn) + 1"
    if len(kept):
        book.enter(f"{scope}.number", turn + 1, "count", formula, kept.source((0,), where), n=len(kept))
    else:
        book.missing(f"{scope}.number", "count", formula, say("missing.none_completed"))
    stated = np.flatnonzero(~np.isnan(kept.rows["prompt_n"].to_numpy(dtype=float)))
    prompts = kept.rows["prompt_n"].to_numpy(dtype=float)[stated]
    _median(book, f"{scope}.prompt.p50", "tokens", "prompt_n", kept, prompts, stated, where)
    _median(book, f"{scope}.ttft.p50", "s", "ttft_s", kept, *_waits(kept), where)


def _waits(kept: Table) -> tuple[np.ndarray, np.ndarray]:
    return (kept.ttft_s.values, kept.ttft_s.row) if len(kept) else (np.array([]), np.array([], dtype=int))


def _median(
    book: Book, id: str, unit: str, name: str, kept: Table, values: np.ndarray, row: np.ndarray, where: str
) -> None:
    formula = f"percentile({name}, 50)"
    if not len(values):
        book.missing(id, unit, formula, say("missing.no_prompt_counts" if len(kept) else "missing.none_completed"))
        return
    notes = ["n_too_small"] if few(len(values), 50) else []
    picks = row[list(interpolated(values, 50))]
    book.enter(id, np.percentile(values, 50), unit, formula, kept.source(picks, where), n=len(values), notes=notes)
