"""What two rounds were recorded with: every condition side by side, each with the line that states it in its round."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from genreport.display import shown
from genreport.errors import RoundError
from genreport.figures import Figures, pointers
from genreport.figures.layout import EngineView
from genreport.figures.planned import entries, line_of
from genreport.records import Ceiling, ModelFacts
from genreport.rounds import HEAD, MACHINE, PLAN, SEAL, Round, verified

# what a machine may differ by in memory and still be the same: kernels keep a little more or less for themselves
MEMORY_TOLERANCE = 0.01
_NUMBER = re.compile(r"-\d+(\.\d+)?")
# ceiling -> its figure of an engine, its unit
CEILINGS = {"bandwidth": ("bandwidth", "bytes/s"), "flops": ("flops_ceiling", "FLOP/s")}
# keys of the plan that have rows of their own, or that only name the file's version
_ELSEWHERE = {"plan", "engines", "tests", "slos", "hypotheses", "not_measured", "redact"}


@dataclass(frozen=True)
class Place:
    """Where a round states something: a file, a JSON Pointer in it, and the line."""

    file: str
    pointer: str
    line: int


@dataclass(frozen=True)
class Difference:
    """One condition in both rounds, as text; `None` where a round does not have it.

    `topic`: machine, system, tool, engine, ceiling, model, flags, env, sampling, plan, slos, hypotheses or level. `scope`:
    the engine's start, if it is one's. `blocks`: levels are not comparable where it differs. `within`: it was measured, and
    is apart by no more than measuring it differs. `figures`: ids of both sides, where these are figures.
    """

    topic: str
    scope: str
    name: str
    old: str | None
    new: str | None
    old_at: Place | None = None
    new_at: Place | None = None
    blocks: bool = False
    within: bool = False
    figures: tuple[str | None, str | None] = (None, None)

    @property
    def same(self) -> bool:
        return self.within or self.old == self.new


Stated = dict[str, tuple[str, Place | None]]


class Conditions:
    """What one round states about how it was recorded: name -> (text, place), a dictionary a topic."""

    def __init__(self, figures: Figures) -> None:
        self.figures, self.round = figures, figures.round
        self._lines = cache(lambda file: pointers.lines_of(self.round.text(file)))
        self._tree = cache(lambda file: json.loads(self.round.text(file)))

    def stated(self, file: str, **pointed: str) -> Stated:
        """Values of a JSON file by pointer, those that are not there left out."""
        found = {}
        for name, pointer in pointed.items():
            value = pointers.at(self._tree(file), pointer)
            if value is not None:
                found[name] = text_of(value), self.place(file, pointer)
        return found

    def place(self, file: str, pointer: str) -> Place:
        return Place(file, pointer, self._lines(file).get(pointer, 1))

    def machine(self) -> Stated:
        """Processor, memory and accelerators: another of these is another machine."""
        found = self.stated(MACHINE, cpu="/cpu", cores="/cores", memory="/memory_bytes", l3="/l3_bytes")
        for k in range(len(self.round.machine.gpus)):
            found |= self.stated(
                MACHINE, **{f"gpu {k}": f"/gpus/{k}/name", f"gpu {k} memory": f"/gpus/{k}/memory_bytes"}
            )
        return found

    def system(self) -> Stated:
        found = self.stated(MACHINE, kernel="/kernel", os="/os", python="/python", clocksource="/clocks/clocksource")
        for k in range(len(self.round.machine.gpus)):
            found |= self.stated(MACHINE, **{f"gpu {k} driver": f"/gpus/{k}/driver"})
        return found

    def tool(self) -> Stated:
        packages = {name: f"/packages/{_escaped(name)}" for name in self.round.machine.packages if name != "genreport"}
        return self.stated(HEAD, genreport="/tool") | self.stated(MACHINE, **packages)

    def engine(self, start: EngineView) -> Stated:
        names = {"kind": "/kind", "version": "/version", "served model": "/model", "cpus": "/cpus", "url": "/url",
                 "KV bytes per element": "/kv_bytes_per_element"}  # fmt: skip
        return self.stated(self.round.launch_file(start.launch), **names)

    def ceilings(self, engine: str) -> Stated:
        """What MBU, MFU and attainment of an engine are shares of."""
        return {
            name: (shown(found.value, unit), self.place(MACHINE, f"/ceilings/{_escaped(engine)}/{name}/value"))
            for name, (_, unit) in CEILINGS.items() if (found := self.ceiling(engine, name))
        }  # fmt: skip

    def ceiling(self, engine: str, name: str) -> Ceiling | None:
        return self.round.machine.ceilings.get(engine, {}).get(name)

    def model(self, start: EngineView) -> Stated:
        """Precision and the hash of every file of weights."""
        found = self.stated(self.round.launch_file(start.launch), precision="/precision")
        file = start.facts.model_facts
        if file is None:
            return found
        hashes = {f.name: f"/files/{k}/sha256" for k, f in enumerate(self.model_of(start).files)}
        return found | self.stated(file, **hashes)

    def model_of(self, start: EngineView) -> ModelFacts | None:
        return self.round.models.get(start.facts.model_facts or "")

    def flags(self, start: EngineView) -> Stated:
        file, command = self.round.launch_file(start.launch), start.facts.command or []
        return {
            name: (value, self.place(file, f"/command/{at}" if command else ""))
            for name, (value, at) in options(command).items()
        }

    def env(self, start: EngineView) -> Stated:
        names = {name: f"/env/{_escaped(name)}" for name in start.facts.env}
        return self.stated(self.round.launch_file(start.launch), **names)

    def sampling(self, engine: str) -> Stated:
        """Sampling parameters over an engine's levels, as the first level with each states it."""
        found: Stated = {}
        for level in self.round.levels:
            if level.facts.engine == engine:
                names = {name: f"/sampling/{_escaped(name)}" for name in level.facts.sampling if name not in found}
                found |= self.stated(level.facts_file, **names)
        return found

    def plan(self) -> Stated:
        """The plan's own keys but those with rows of their own, flattened to pointers."""
        kept = {key: value for key, value in self.round.plan.items() if key not in _ELSEWHERE}
        return self._planned(_flat(kept))

    def tests(self) -> dict[str, Stated]:
        """What each test of the plan asks for, by its id."""
        return {
            str(entry.get("id")): {
                str(key): (text_of(value), self._at(f"/tests/{at}/{_escaped(str(key))}"))
                for key, value in entry.items() if key != "id"
            }
            for at, entry in entries(self.round.plan, "tests")
        }  # fmt: skip

    def listed(self, key: str) -> Stated:
        """A list of the plan by the ids of its entries, such as its service levels."""
        return {str(entry.get("id")): (text_of({k: v for k, v in entry.items() if k != "id"}), self._at(f"/{key}/{at}"))
                for at, entry in entries(self.round.plan, key)}  # fmt: skip

    def _planned(self, found: Iterable[tuple[str, Any]]) -> Stated:
        return {pointer.strip("/"): (text_of(value), self._at(pointer)) for pointer, value in found}

    def _at(self, pointer: str) -> Place:
        return Place(PLAN, pointer, line_of(self.round.text(PLAN), pointer))


def options(command: list[str]) -> dict[str, tuple[str, int]]:
    """Options of a command line with their values and places; the program is `command`, words before any `arguments`.

    `--name=value` and `--name value` are the same; an option given twice keeps both values, one without any says `yes`.
    """
    found: dict[str, tuple[list[str], int]] = {}
    name = "command"
    for at, word in enumerate(command):
        if word.startswith("-") and not _NUMBER.fullmatch(word):
            name, has_value, value = word.partition("=")
            found.setdefault(name, ([], at))[0].extend([value] if has_value else [])
        else:
            found.setdefault(name, ([], at))[0].append(word)
            name = "arguments" if name == "command" else name
    return {name: (" ".join(words) or "yes", at) for name, (words, at) in found.items()}


def compared(
    topic: str, old: Stated, new: Stated, *, scope: str = "", blocks: Iterable[str] | bool = False
) -> Iterator[Difference]:
    """Every condition of either side, in the order of the new one."""
    for name in dict.fromkeys([*new, *old]):
        (before, before_at), (after, after_at) = (side.get(name, (None, None)) for side in (old, new))
        blocking = blocks if isinstance(blocks, bool) else name in blocks
        yield Difference(topic, scope, name, before, after, before_at, after_at, blocking)


def of_machine(old: Conditions, new: Conditions) -> list[Difference]:
    """The machine; a difference in memory within the tolerance is shown and blocks nothing."""
    found = list(compared("machine", old.machine(), new.machine(), blocks=True))
    a, b = (side.round.machine.memory_bytes for side in (old, new))
    close = abs(a - b) <= MEMORY_TOLERANCE * max(a, b)
    return [replace(d, blocks=False) if d.name == "memory" and close else d for d in found]


def of_ceilings(old: Conditions, new: Conditions, before: str, after: str) -> Iterator[Difference]:
    """An engine's ceilings; those whose best runs lie apart by no more than the best tenth of the runs are the same."""
    for d in compared("ceiling", old.ceilings(before), new.ceilings(after), scope=after):
        a, b = old.ceiling(before, d.name), new.ceiling(after, d.name)
        within = a is not None and b is not None and abs(a.value - b.value) <= max(spread(a.samples), spread(b.samples))
        yield replace(d, within=within, figures=tuple(f"engine.{id}.{CEILINGS[d.name][0]}" for id in (before, after)))


def spread(samples: Sequence[float]) -> float:
    """From the 90th percentile of a ceiling's runs to the best one, which is the ceiling: 0 where it was not measured.

    The slow runs do not count: they tell of a busy machine, and of no doubt about the best one.
    """
    return float(max(samples) - np.percentile(samples, 90)) if samples else 0.0


def of_engine(old: Conditions, new: Conditions, before: EngineView, after: EngineView) -> list[Difference]:
    """Everything of one start of an engine: what it is, its weights, its command line and its environment."""
    topics = (("engine", Conditions.engine, False), ("model", Conditions.model, True), ("flags", Conditions.flags, False),
              ("env", Conditions.env, False))  # fmt: skip
    sides = [(old, before), (new, after)]
    found = []
    for topic, read, blocks in topics:
        was, now = (read(conditions, start) for conditions, start in sides)
        found += compared(topic, was, now, scope=after.id, blocks=blocks)
    hashed = all(conditions.model_of(start) for conditions, start in sides)
    return found if hashed else [_by_name(d) for d in found]


def _by_name(d: Difference) -> Difference:
    """Without hashes of its files, only the name that a model is served by can tell it from another."""
    return replace(d, topic="model", blocks=True) if (d.topic, d.name) == ("engine", "served model") else d


def of_plan(old: Conditions, new: Conditions) -> list[Difference]:
    """The plan: its own keys, what the tests of both ask for, its service levels, its hypotheses."""
    found = list(compared("plan", old.plan(), new.plan()))
    before, after = old.tests(), new.tests()
    for test in dict.fromkeys([*after, *before]):
        was, now = (
            {f"{test}: {key}": stated for key, stated in side.get(test, {}).items()} for side in (before, after)
        )
        if test in before and test in after:
            found += compared("plan", was, now)
        else:  # its levels are new or gone, and say the rest
            found += compared("plan", *({test: next(iter(side.values()))} if side else {} for side in (was, now)))
    for key in ("slos", "hypotheses"):
        found += compared(key, old.listed(key), new.listed(key))
    return found


def text_of(value: Any) -> str:
    """A value as a reader would write it: strings as they are, keys before their values."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text_of(each)}" for key, each in value.items())
    if isinstance(value, list):
        nested = any(isinstance(each, Mapping | list) for each in value)
        return ("; " if nested else ", ").join(map(text_of, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def _flat(tree: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a tree with its pointer; lists of entries with an `id` go by it in the order of the file."""
    if isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from _flat(value, f"{pointer}/{_escaped(str(key))}")
    elif isinstance(tree, list) and any(isinstance(value, Mapping | list) for value in tree):
        for k, value in enumerate(tree):
            yield from _flat(value, f"{pointer}/{k}")
    else:
        yield pointer, tree


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def slug_of(name: str) -> str:
    """A round's name, fit for the ids of figures."""
    return re.sub(r"[^A-Za-z0-9_+-]", "_", name)


def seal_of(round: Round) -> str:
    """The SHA-256 of a round's seal: two rounds with the same one are the same round."""
    return hashlib.sha256(round.bytes(SEAL)).hexdigest()


def sealed(path: str | Path) -> Round:
    """A verified round that is finished; RoundError for one that is not."""
    found = verified(path)
    if not found.sealed:
        cure = "`genreport run … --resume` goes on with it"
        raise RoundError("not sealed: an unfinished round is not compared", where=str(path), cure=cure)
    return found
