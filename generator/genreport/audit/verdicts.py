"""Verdicts on a page: the word must be the one that the figure's code stands for."""

from __future__ import annotations

from pathlib import Path

from genreport.audit.case import Case

VERDICTS = {1: "improved", -1: "regressed", 0: "equivalent", 2: "inconclusive", 3: "too_few", 4: "not_comparable",
            8: "equal", 9: "changed", 10: "outside"}  # fmt: skip
STATES = {0: "matched", 4: "different", 5: "new", 6: "gone", 7: "failed"}
OUTCOMES = {1: "held", -1: "refuted", 0: "undecided"}


def check_verdict(case: Case, page: Path, word: str, id: str) -> None:
    """One verdict that a page shows, by its word and the figure it is taken from."""
    case.report.count("verdicts")
    figure = case.figures.get(id)
    if figure is None or figure["value"] is None:
        case.report.fail(page, f"the verdict {word!r} is of the figure {id!r}, which has no value")
    elif codes(id).get(figure["value"]) != word:
        case.report.fail(page, f"says {word!r} of {id}, whose code is {figure['value']!r}")


def codes(id: str) -> dict[int, str]:
    """What the code of a figure may stand for, by the figure's id."""
    if id.endswith(".state"):
        return STATES
    return OUTCOMES if id.startswith("hypothesis.") else VERDICTS
