"""How a figure enters the ledger: from a place in a file, or by a formula over figures that are already there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from genreport.errors import RoundError
from genreport.figures import pointers
from genreport.provenance import Ledger, Line, Pointer, Quantity, Source, values
from genreport.rounds import Round
from genreport.startlog import Fact
from genreport.words import say

Ids = str | Sequence[str]
# why a formula has no value, where arithmetic itself refuses
WHY_NOT = {ZeroDivisionError: "missing.division_by_zero", OverflowError: "missing.not_finite"}


class Absent(Exception):
    """A formula has no value for these inputs; the message is the reason a page prints."""


class Book:
    """The ledger of one round, with the ways to add to it; a formula's text and its function are given side by side."""

    def __init__(self, round: Round, ledger: Ledger | None = None) -> None:
        self.round, self.ledger = round, Ledger() if ledger is None else ledger
        self._json = lru_cache(maxsize=8)(self._read_json)
        self._lines = lru_cache(maxsize=8)(lambda file: round.text(file).split("\n"))

    def __getitem__(self, id: str) -> Quantity:
        return self.ledger[id]

    def value(self, id: str) -> Any:
        """A figure's value, `None` where it is missing or was never entered."""
        return self.ledger.value(id)

    def observed(self, ids: Iterable[str]) -> list[str]:
        """Those of the ids that have a value."""
        return [id for id in ids if self.value(id) is not None]

    def missing(self, id: str, unit: str, formula: str, reason: str) -> Quantity:
        return self.ledger.add(Quantity(id, None, unit, formula, reason=reason))

    def enter(
        self,
        id: str,
        value: Any,
        unit: str,
        formula: str,
        *sources: Source,
        n: int | None = None,
        notes: Iterable[str] = (),
        reason: str | None = None,
        inputs: Mapping[str, str | tuple[str, ...]] | None = None,
    ) -> Quantity:
        """A figure read from its sources, by the help of others if `inputs` names them; what is not finite is missing."""
        value = _plain(value)
        finite = value is not None and all(math.isfinite(v) for v in (value if isinstance(value, tuple) else (value,)))
        if not finite:
            why = say("missing.not_finite") if value is not None else reason or say("missing.nothing_observed")
            return self.ledger.add(Quantity(id, None, unit, formula, n=n, sources=sources, reason=why))
        facts = {"n": n, "sources": sources, "notes": tuple(notes), "inputs": dict(inputs or {})}
        return self.ledger.add(Quantity(id, value, unit, formula, **facts))

    def derive(
        self,
        id: str,
        unit: str,
        formula: str,
        function: Callable[..., Any],
        *,
        n: int | None = None,
        notes: Iterable[str] = (),
        carry: bool = True,
        **inputs: Ids,
    ) -> Quantity:
        """A figure of figures: `function` gets each input by its alias, a float or, for several ids, an array.

        One missing input makes the result missing, with that input's reason; warnings of the inputs travel on
        unless `carry` is false: a count of figures is no more in doubt than a count of others.
        """
        named = {alias: ids if isinstance(ids, str) else tuple(ids) for alias, ids in inputs.items()}
        facts = {"n": n, "inputs": named}
        try:
            value = _plain(function(**{alias: self._given(alias, ids) for alias, ids in named.items()}))
            if value is None or not all(math.isfinite(v) for v in (value if isinstance(value, tuple) else (value,))):
                raise Absent(say("missing.not_finite"))
        except (Absent, ZeroDivisionError, OverflowError) as absent:
            why = say(WHY_NOT[type(absent)]) if type(absent) in WHY_NOT else str(absent)
            return self.ledger.add(Quantity(id, None, unit, formula, reason=why, **facts))
        travelling = [note for i in self._ids(named) for note in self.ledger[i].notes] if carry else []
        carried = dict.fromkeys([*travelling, *notes])
        return self.ledger.add(Quantity(id, value, unit, formula, notes=tuple(carried), **facts))

    def _given(self, alias: str, ids: str | tuple[str, ...]) -> Any:
        for q in map(self.ledger.__getitem__, self._ids({alias: ids})):
            if q.missing:
                raise Absent(q.reason)
        if isinstance(ids, str):
            return np.array(values(self.ledger[ids])) if isinstance(self.value(ids), tuple) else self.value(ids)
        if not ids:
            raise Absent(say("missing.nothing_completed"))
        return np.concatenate([np.atleast_1d(self.value(i)) for i in ids])  # curves stand end to end

    @staticmethod
    def _ids(named: dict[str, str | tuple[str, ...]]) -> Iterable[str]:
        for ids in named.values():
            yield from (ids,) if isinstance(ids, str) else ids

    def pointer(
        self,
        id: str,
        unit: str,
        file: str,
        pointer: str,
        *,
        formula: str = "field",
        function: Callable[[Any], Any] = float,
        n: int | None = None,
        notes: Iterable[str] = (),
        reason: str | None = None,
    ) -> Quantity:
        """A value of a JSON file of the round, or something computed from it alone."""
        tree, lines = self._json(file)
        field = pointers.at(tree, pointer)
        if field is None or field == []:
            return self.missing(id, unit, formula, reason or say("missing.not_recorded"))
        source = Pointer(file, pointer, lines[pointer])
        return self.enter(id, function(field), unit, formula, source, n=n, notes=notes)

    def _read_json(self, file: str) -> tuple[Any, dict[str, int]]:
        text = self.round.text(file)
        return json.loads(text), pointers.lines_of(text)

    def lines(self, file: str | None) -> list[str]:
        """A file's lines, as the places in it count them; none where there is no such file, or none that can be read."""
        try:
            return self._lines(file) if file else []
        except RoundError:
            return []

    def stated(self, id: str, unit: str, file: str | None, fact: Fact | None, reason: str) -> Quantity:
        """A figure that one line of a start-up log states."""
        if file is None or fact is None:
            return self.missing(id, unit, "number(line)", reason)
        formula = "number(line)" if fact.scale == 1 else f"number(line) * {fact.scale:.0f}"
        return self.enter(id, fact.value, unit, formula, Line(file, fact.line, fact.pattern))


def _plain(value: Any) -> float | tuple[float, ...] | None:
    if value is None:
        return None
    if np.ndim(value):
        return tuple(float(v) for v in value)
    return float(value)
