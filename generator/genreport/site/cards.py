"""What a number says under the pointer: one script a round with the figures its pages show, loaded at the first hover.

A script, since a page opened from a disk may load one and may not fetch data. What stands in it is the manifest's, for the
figures shown; `audit.cards` holds the one against the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from genreport.places import derivation_group
from genreport.provenance import COLUMNS, Foreign, Ledger, Line, Lines, Pointer, Quantity, Rows, Samples, Source
from genreport.site.listings import Listed
from genreport.words import catalogue, say

CALL = "genreportFigures"
# a card is small: a figure with more places, inputs or values of an input opens its derivation for the others
MOST = 6

Place = tuple[str, int, int] | tuple[str, int] | tuple[str]  # a file, its line or first line, its last line


def script(round_name: str, ledger: Ledger, listed: Iterable[Listed], shown: Iterable[str]) -> str:
    """The script's text.

    `figures` by id: first those shown, each a card, then what cards name, with value and unit alone. In them a figure is
    named by its place in this order; files, texts and pages of derivations by their places in `files`, `texts`, `groups`.
    """
    cards = _Cards(ledger, sorted(shown))
    figures = cards.written()
    known = {entry.file: [entry.sha256, list(entry.pages)] for entry in listed}
    plain = {
        "round": round_name,
        "files": [[file, *known.get(file, ["", [1]])] for file in cards.files],
        "groups": list(cards.groups),
        "texts": list(cards.texts),
        "columns": _columns([ledger[id] for id in cards.shown]),
        "notes": {note: say(f"note.{note}") for id in cards.shown for note in ledger[id].notes},
        "words": catalogue()["card"],
        "figures": figures,
    }
    return f"{CALL}({json.dumps(plain, ensure_ascii=False, separators=(',', ':'))})\n"


class _Cards:
    """The entries of the figures shown, and of those that they name."""

    def __init__(self, ledger: Ledger, shown: list[str]) -> None:
        self.ledger, self.shown = ledger, shown
        self.names, self.files, self.texts, self.groups = _Numbers(shown), _Numbers(), _Numbers(), _Numbers()

    def written(self) -> dict[str, dict[str, Any]]:
        cards = {id: self._card(self.ledger[id]) for id in self.shown}
        return cards | {id: self._brief(self.ledger[id]) for id in self.names if id not in cards}

    def _brief(self, q: Quantity) -> dict[str, Any]:
        """Value and unit, of a curve how many points it has, and where the derivation stands."""
        value = {"points": len(q.value)} if isinstance(q.value, tuple) else {"value": q.value}
        return value | {"unit": self.texts[q.unit], "group": self.groups[derivation_group(q.id)]}

    def _card(self, q: Quantity) -> dict[str, Any]:
        ground = _ground(q, self.ledger)
        places = [place for source in ground.sources for place in places_of(source)] if ground else []
        rows = next((s for s in q.sources if isinstance(s, Rows)), None)
        foreign = next((s for s in q.sources if isinstance(s, Foreign)), None)
        found = {
            "n": q.n,
            "formula": self.texts[q.formula],
            "inputs": {alias: self._input(given) for alias, given in list(q.inputs.items())[:MOST]},
            "left": len(q.inputs) - MOST if len(q.inputs) > MOST else None,
            "foreign": [foreign.round, foreign.figure, foreign.seal] if foreign else None,
            "rows": [rows.count, len(rows.files), self.texts[rows.where]] if rows else None,
            "places": [[self.files[file], *lines] for file, *lines in places[:MOST]],
            "more": len(places[MOST:]) or None,
            "through": self.names[ground.id] if ground and ground is not q else None,
            "notes": [self.texts[note] for note in q.notes],
            "reason": self.texts[q.reason] if q.reason else None,
        }
        return self._brief(q) | {name: said for name, said in found.items() if said not in (None, [], {})}

    def _input(self, given: str | tuple[str, ...]) -> int | list[int]:
        """A figure, or how many there are and the first of them."""
        if isinstance(given, str):
            return self.names[given]
        return [len(given), *(self.names[id] for id in given[:MOST])]


def places_of(source: Source) -> list[Place]:
    """Where a source can be looked at: for a selection the records that decide, else its files."""
    match source:
        case Rows(files=files, picks=picks):
            return list(picks) or [(file,) for file in files]
        case Line(file=file, line=line) | Pointer(file=file, line=line):
            return [(file, line)]
        case Lines(file=file, first=first, last=last) | Samples(file=file, lines=(first, last)):
            return [(file, first, last)]
    return []


def _ground(q: Quantity, ledger: Ledger) -> Quantity | None:
    """The figure itself if it was read somewhere, else the nearest of its inputs that was."""
    seen, queue = {q.id}, [q]
    for found in queue:
        if any(places_of(source) for source in found.sources):
            return found
        new = [id for id in found.input_ids() if id not in seen]
        seen.update(new)
        queue += [ledger[id] for id in dict.fromkeys(new)]
    return None


def _columns(figures: list[Quantity]) -> dict[str, str]:
    """Definitions of the request columns that the formulas name."""
    text = " ".join(q.formula for q in figures if any(isinstance(s, Rows) for s in q.sources))
    return {name: COLUMNS[name] for name in COLUMNS if re.search(rf"\b{name}\b", text)}


class _Numbers(dict[str, int]):
    """Numbers for texts, in the order in which they are first asked for."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        super().__init__({text: number for number, text in enumerate(first)})

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]
