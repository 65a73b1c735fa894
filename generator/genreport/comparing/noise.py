"""What rounds differ by when nothing was changed: the floor below which a difference is not worth a verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from genreport.comparing.environment import Conditions, Difference, compared, of_engine, of_machine, seal_of, sealed
from genreport.comparing.families import COMPARED, FROM_SENDING
from genreport.comparing.matching import pair_engines, pair_levels
from genreport.errors import OptionError, printable
from genreport.figures import Figures, compute
from genreport.figures.statistics import geometric_ratio, noise_floor

FORMAT = "genreport-noise/1"


@dataclass(frozen=True)
class Floor:
    """The floor of one figure (a share), the differences it is taken from, and the largest of them."""

    figure: str
    floor: float
    pairs: int
    largest: float


@dataclass(frozen=True)
class Noise:
    """Floors by figure, and the rounds they were measured between."""

    found: tuple[Floor, ...]
    rounds: tuple[str, ...] = ()

    @property
    def floors(self) -> Mapping[str, float]:
        return {floor.figure: floor.floor for floor in self.found}

    def plain(self) -> dict[str, Any]:
        """As it is written to a file."""
        figures = {f.figure: {"floor": f.floor, "pairs": f.pairs, "largest": f.largest} for f in self.found}
        return {"format": FORMAT, "rounds": list(self.rounds), "figures": figures}


def of_paths(paths: Sequence[str | Path]) -> Noise:
    """The floors between recorded rounds; a GenreportError names what is wrong with one, or that they say nothing."""
    if len({Path(path).resolve() for path in paths}) < 2:
        cure = "record the plan a second time and name both; the repeats of one round count by themselves"
        raise OptionError("noise between rounds takes two of them", where=str(paths[0]), cure=cure)
    rounds = [sealed(path) for path in paths]
    if len({seal_of(found) for found in rounds}) < len(rounds):
        raise OptionError("a round is named twice", where="noise", cure="name recordings of their own")
    figures = [compute(each) for each in rounds]
    for later in figures[1:]:
        _refuse_changed(Conditions(figures[0]), Conditions(later))
    found = between(figures)
    if not found.found:
        cure = "name rounds of the same plan"
        raise OptionError("the rounds have no level in common", where="noise", cure=cure)
    return found


def _refuse_changed(old: Conditions, new: Conditions) -> None:
    """What differs because something was changed is no noise, and a floor made of it would hide every regression."""
    d = next(_changes(old, new), None)
    if d is not None:
        sides = (_short(text) for text in (d.old, d.new))
        what = " ".join(filter(None, ("something was changed:", d.scope, d.topic, d.name, " → ".join(sides))))
        raise OptionError(what, where=new.round.name, cure="name recordings between which nothing was changed")


def _changes(old: Conditions, new: Conditions) -> Iterator[Difference]:
    """Conditions that could be why figures differ; under which address an engine was reached is none."""
    found = [*of_machine(old, new), *compared("system", old.system(), new.system())]
    before = {start.id: start for start in old.figures.starts}
    for start in (start for start in new.figures.starts if start.id in before):
        found += of_engine(old, new, before[start.id], start)
    for engine in (engine for engine in new.figures.engines if engine in old.figures.engines):
        found += compared("sampling", old.sampling(engine), new.sampling(engine), scope=engine)
    engines = pair_engines(old, new, {})
    found += [d for match in pair_levels(old, new, engines, ()) if match.old for d in match.because]
    return (d for d in found if not d.same and (d.blocks or d.topic != "machine") and d.name != "url")


def _short(text: str | None) -> str:
    shown = printable(text or "none")
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def told(noise: Noise) -> Iterator[str]:
    """The floors as a table of text."""
    yield f"{'figure':20} {'floor':>8} {'largest':>8} {'levels':>7}   ({', '.join(noise.rounds)})"
    for f in noise.found:
        yield f"{f.figure:20} {f.floor:8.1%} {f.largest:8.1%} {f.pairs:7d}"


def write(noise: Noise, path: str | Path) -> None:
    """Writes the floors for `--noise`."""
    Path(path).write_text(json.dumps(noise.plain(), indent=1) + "\n", "utf-8")


def between(rounds: Sequence[Figures]) -> Noise:
    """The floor of every compared figure over all levels that any two of the rounds have in common.

    Levels go by test, engine and name: the rounds are recordings of one plan.
    """
    found = []
    for figure in COMPARED:
        differences = [d for a, b in combinations(rounds, 2) for d in _differences(a, b, figure)]
        if differences:
            largest = float(np.exp(np.max(np.abs(differences))) - 1)
            found.append(Floor(figure, noise_floor(differences), len(differences), largest))
    return Noise(tuple(found), tuple(figures.round.name for figures in rounds))


def _differences(a: Figures, b: Figures, figure: str) -> Iterator[float]:
    """Log ratios of the geometric means of the repeats of each common level."""
    for level in (v for test in a.tests for engine in test.engines for v in test.levels_of(engine)):
        other = next((v for test in b.tests for v in test.levels_of(level.engine) if v.id == level.id), None)
        if other is None or (level.open_loop and figure in FROM_SENDING):
            continue
        sides = [_repeats(side, ids) for side, ids in ((a, level.ids(figure)), (b, other.ids(figure)))]
        if all(sides) and min(map(min, sides)) > 0:
            yield float(np.log(geometric_ratio(*sides)))


def _repeats(figures: Figures, ids: Sequence[str]) -> list[float]:
    known = (figures.ledger.get(id) for id in ids)
    return [q.value for q in known if q is not None and not q.missing]


def read(path: str | Path) -> Noise:
    """Floors as `genreport noise --out` wrote them; OptionError for a file that holds none."""
    try:
        plain = json.loads(Path(path).read_text("utf-8"))
        if plain["format"] != FORMAT:
            raise ValueError(f"the format {plain['format']!r}")
        found = [_floor(figure, facts) for figure, facts in plain["figures"].items() if figure in COMPARED]
        return Noise(tuple(found), tuple(map(str, plain["rounds"])))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        cure = "write it with `genreport noise runs/a runs/b --out FILE`"
        raise OptionError(
            f"no floors of noise: {' '.join(str(error).split())[:100]}", where=str(path), cure=cure
        ) from None


def _floor(figure: str, facts: Mapping[str, Any]) -> Floor:
    floor, pairs, largest = float(facts["floor"]), int(facts["pairs"]), float(facts["largest"])
    if not (0 <= floor < 1e6 and 0 <= largest < 1e6):
        raise ValueError(f"the floor {floor} of {figure}")
    return Floor(figure, floor, pairs, largest)
