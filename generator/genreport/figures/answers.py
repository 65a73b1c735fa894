"""Do two engines answer alike? Greedy answers to the same prompts, compared letter by letter.

A repeat's seed and a request's index make its prompt, the same one on every engine. Only the lowest common load is read:
there no other request shares the batch, so what differs is the weights and the arithmetic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genreport.errors import RoundError
from genreport.figures import planned
from genreport.figures.book import Book
from genreport.figures.frames import table
from genreport.figures.layout import LevelView, TestView
from genreport.provenance import MEASURED, Rows
from genreport.records import OF_WORDS
from genreport.rounds import Level
from genreport.words import say

AGREEMENT = "agreement(seed * 1000000 + index, answer)"
# the same prompts under different sampling parameters
SAMPLING_DIFFERS = "sampling_differs"


@dataclass(frozen=True)
class Answer:
    """One measured answer: which prompt it is to, what it says, and where it stands."""

    prompt: int
    text: int
    place: tuple[str, int]


def fingerprint(text: str) -> int:
    """A number that stands for a text: the first twelve hexadecimal digits of its SHA-256."""
    return int(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)


def enter(book: Book, test: TestView) -> None:
    """The share of each challenger's answers that equal the baseline's."""
    base, *others = test.engines
    for other in others:
        _pair(book, test, base, other)


def _pair(book: Book, test: TestView, base: str, other: str) -> None:
    id = f"pair.{test.id}.{base}.{other}.same_answers"
    levels = next(iter(test.shared(base, other)), ())
    why_not = _incomparable(book, levels) if levels else say("missing.no_common_level")
    if why_not:
        book.missing(id, "share", AGREEMENT, why_not)
        return
    read = {repeat.requests_file: _answers(book, repeat) for level in levels for repeat in level.repeats}
    read = {file: answers for file, answers in read.items() if answers is not None}
    answers = [answer for found in read.values() for answer in found]
    pairs = twice(answers)
    source = Rows(tuple(read), MEASURED, len(answers), _picks(pairs))
    notes = [SAMPLING_DIFFERS] if len({str(sampling) for sampling in _samplings(levels)}) > 1 else []
    book.enter(id, agreement(pairs), "share", AGREEMENT, source, n=len(pairs), notes=notes,
               reason=say("missing.no_common_prompt"))  # fmt: skip


def twice(answers: Sequence[Answer]) -> list[tuple[Answer, Answer]]:
    """The two answers to each prompt that has exactly two, in the order of the first."""
    found: dict[int, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.prompt, []).append(answer)
    return [(given[0], given[1]) for given in found.values() if len(given) == 2]


def agreement(pairs: Sequence[tuple[Answer, Answer]]) -> float | None:
    """The share of pairs whose texts are equal."""
    return sum(one.text == other.text for one, other in pairs) / len(pairs) if pairs else None


def _answers(book: Book, repeat: Level) -> list[Answer] | None:
    """Every measured answer of a repeat; `None` where it cannot be read, which its level's loading has said."""
    file = repeat.requests_file
    try:
        requests = book.round.requests(repeat)
    except RoundError:
        return None
    rows = table(file, requests).rows
    measured = rows["ok"] & ~rows["warmup"]
    return [
        Answer(request.seed * 1_000_000 + request.index, fingerprint(request.text), (file, line))
        for line, (request, counts) in enumerate(zip(requests, measured, strict=True), 1)
        if counts
    ]


def _picks(pairs: Sequence[tuple[Answer, Answer]]) -> tuple[tuple[str, int], ...]:
    """Both records of the first pair that differs, else of the first pair."""
    pair = next((pair for pair in pairs if pair[0].text != pair[1].text), next(iter(pairs), ()))
    return tuple(answer.place for answer in pair)


def _incomparable(book: Book, levels: Sequence[LevelView]) -> str | None:
    """Why two engines' answers to the same requests say nothing of each other, if they do not."""
    if any(sampling.get("temperature") != 0 for sampling in _samplings(levels)):
        return say("missing.sampled_answers")
    if len({_form(book, level.engine) for level in levels}) > 1:
        return say("missing.other_prompts")
    return None


def _samplings(levels: Sequence[LevelView]) -> list[dict[str, Any]]:
    return [repeat.facts.sampling for level in levels for repeat in level.repeats]


def _form(book: Book, engine: str) -> str:
    """Whether an engine's prompts were token ids or words, by the plan's word or its kind's default."""
    facts = next((facts for facts in book.round.launches.values() if facts.engine == engine), None)
    names = (engine, facts.variant_of if facts else None)
    found = (entry for _, entry in planned.entries(book.round.plan, "engines") if entry.get("id") in names)
    return str(next(found, {}).get("prompt") or "") or ("text" if facts and facts.kind in OF_WORDS else "ids")
