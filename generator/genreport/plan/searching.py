"""The search for the largest load that still meets a service level: which load is next follows from what is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import sqrt
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from genreport.plan.parts import Id, Paced, Part


class Search(Part):
    """Bisection between two loads, `from` first, until they lie within a share of each other (0.1 = 10 %)."""

    slo: Id
    low: Annotated[Paced, Field(alias="from")]
    high: Annotated[Paced, Field(alias="to")]
    within: Annotated[float, Field(ge=0.01, le=1)] = 0.1

    @field_validator("high")
    @classmethod
    def _above(cls, high: float, info: ValidationInfo) -> float:
        if high <= info.data.get("low", 0):
            raise ValueError(f"must be above `from`, not {high:g}")
        return high

    def loads(self, met: Callable[[float], bool | None], *, whole: bool) -> Iterator[float]:
        """The loads to measure in order; it ends with one that `met` does not know yet, or with the search."""
        low, high = self.low, self.high
        for load in (low, high):
            yield load
            if (known := met(load)) is None or known == (load == high):
                return
        while (load := _between(low, high, whole)) not in (low, high) and high > low * (1 + self.within):
            yield load
            if (known := met(load)) is None:
                return
            low, high = (load, high) if known else (low, load)


def _between(low: float, high: float, whole: bool) -> float:
    """The geometric mean, in whole requests or three digits."""
    middle = sqrt(low * high)
    return float(min(max(round(middle), low + 1), high)) if whole else float(f"{middle:.3g}")
