"""Is a lead more than noise? The interval of a ratio of two engines, over the repeats of both."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genreport.figures.book import Absent, Book
from genreport.figures.statistics import ratio_interval
from genreport.words import say

# repeats of each that an interval takes
FEWEST = 2


def enter(book: Book, id: str, over: Sequence[str], under: Sequence[str]) -> None:
    """Both ends of the interval of a ratio of two engines, as `id.low` and `id.high`, from ids of their repeats' values."""
    for end, name in enumerate(("low", "high")):
        formula = f"ratio_interval(over, under)[{end}]"
        if min(len(over), len(under)) < FEWEST:
            book.missing(f"{id}.{name}", "ratio", formula, say("missing.not_repeated"))
        else:
            book.derive(f"{id}.{name}", "ratio", formula, lambda over, under, end=end: _interval(over, under)[end],
                        n=len(over) + len(under), over=over, under=under)  # fmt: skip


def _interval(over: np.ndarray, under: np.ndarray) -> tuple[float, float]:
    if min(over.min(), under.min()) <= 0:
        raise Absent(say("against.not_positive"))
    return ratio_interval(over, under)
