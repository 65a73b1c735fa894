"""Which engine and which level of one round stands beside which of the other: by what they are, not by their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from genreport.comparing.environment import Conditions, Difference, compared, of_engine
from genreport.errors import OptionError
from genreport.figures import EngineView, Figures, LevelView

# what a level is, beside its engine: pointers into its facts
DEFINITION = {
    "input": "/shape/input", "output": "/shape/output", "concurrency": "/concurrency", "turns": "/conversations/turns",
    "prefix": "/conversations/prefix", "think_s": "/conversations/think_s", "chat": "/chat", "prompts": "/prompts/sha256",
    "trace": "/trace/sha256", "shared_prefix": "/shared_prefix",
}  # fmt: skip
# of an open loop, how its requests come
ARRIVALS = ("process", "rate", "burstiness", "from_rate", "to_rate", "size", "every_s", "speed", "max_in_flight")
DEFINITION |= {name: f"/arrivals/{name}" for name in ARRIVALS}
# what does not define it, but weighs the filling and draining of a level differently
CAUTIONS = {"requests": "/requests", "warmup": "/warmup"}


@dataclass(frozen=True)
class EnginePair:
    """An engine in both rounds, or in one; `how` it was found: by `name`, by `map`, or by its `model`.

    `differences` holds what differs between their starts, `blocks` those of them that make levels incomparable.
    """

    old: str | None
    new: str | None
    how: str
    differences: tuple[Difference, ...] = ()
    blocks: tuple[Difference, ...] = ()

    @property
    def id(self) -> str:
        return self.new or self.old


@dataclass(frozen=True)
class Flagged:
    """A warning that a level has in one of two rounds: its kind (see `figures.flags`), and whether it is the `new` one."""

    kind: str
    new: bool


@dataclass(frozen=True)
class Match:
    """A level in both rounds, or in one. `state`: matched, different, new, gone or failed.

    `because`: what makes it different; `cautions` and `flagged`: what is worth knowing beside a comparison.
    """

    state: str
    old: LevelView | None
    new: LevelView | None
    because: tuple[Difference, ...] = ()
    cautions: tuple[Difference, ...] = field(default=())
    flagged: tuple[Flagged, ...] = ()


def pair_engines(old: Conditions, new: Conditions, names: Mapping[str, str]) -> list[EnginePair]:
    """Engines by the map, then by name, then by weights where only one on each side has them; the rest are new or gone.

    OptionError for a name in `names` (old -> new) that no engine has.
    """
    before, after = old.figures.engines, new.figures.engines
    _refuse(names, before, after)
    found = {**{new_id: (old_id, "map") for old_id, new_id in names.items()}}
    taken = set(names)
    for id in after:
        if id not in found and id in before and id not in taken:
            found[id] = id, "name"
            taken.add(id)
    for new_id, old_id in _by_model(
        old, new, [e for e in before if e not in taken], [e for e in after if e not in found]
    ):
        found[new_id] = old_id, "model"
        taken.add(old_id)
    pairs = [(*found.get(id, (None, "")), id) for id in after] + [(id, "", None) for id in before if id not in taken]
    return [_pair(old, new, old_id, new_id, how) for old_id, how, new_id in pairs]


def _refuse(names: Mapping[str, str], before: Sequence[str], after: Sequence[str]) -> None:
    for old_id, new_id in names.items():
        for id, known, which in ((old_id, before, "earlier"), (new_id, after, "later")):
            if id not in known:
                cure = f"its engines are {', '.join(known) or 'none'}"
                raise OptionError(
                    f"the {which} round has no engine {id!r}", where=f"--map {old_id}={new_id}", cure=cure
                )
    if len(set(names.values())) < len(names):
        raise OptionError("two engines are mapped to the same one", where="--map", cure="name each engine once")


def _by_model(
    old: Conditions, new: Conditions, before: Iterable[str], after: Iterable[str]
) -> Iterable[tuple[str, str]]:
    """(new, old) of engines whose kind, weights and precision only one engine of each side has."""
    sides = [{}, {}]
    for side, conditions, ids in zip(sides, (old, new), (before, after), strict=True):
        for id in ids:
            side.setdefault(_weights(conditions, id), []).append(id)
    for weights, new_ids in sides[1].items():
        old_ids = sides[0].get(weights, [])
        if weights is not None and len(new_ids) == len(old_ids) == 1:
            yield new_ids[0], old_ids[0]


def _weights(conditions: Conditions, engine: str) -> tuple | None:
    """Kind, precision and hashes of an engine's weights; `None` where no hash is known."""
    start = start_of(conditions.figures, engine)
    model = None if start is None else conditions.model_of(start)
    if model is None:
        return None
    return start.facts.kind, start.facts.precision, tuple(sorted(file.sha256 for file in model.files))


def start_of(figures: Figures, engine: str) -> EngineView | None:
    return next((start for start in figures.starts if start.engine == engine), None)


def _pair(old: Conditions, new: Conditions, old_id: str | None, new_id: str | None, how: str) -> EnginePair:
    if old_id is None or new_id is None:
        return EnginePair(old_id, new_id, how)
    before, after = start_of(old.figures, old_id), start_of(new.figures, new_id)
    found = of_engine(old, new, before, after) if before and after else []
    found += compared("sampling", old.sampling(old_id), new.sampling(new_id), scope=new_id)
    differ = tuple(d for d in found if not d.same)
    return EnginePair(old_id, new_id, how, differ, _blocks(differ))


def _blocks(differ: Sequence[Difference]) -> tuple[Difference, ...]:
    """What makes weights others: a file under another name with the same hash does not."""
    hashes = [{side for side in sides if side} for sides in zip(*(
        (d.old, d.new) for d in differ if d.topic == "model" and d.name != "precision"), strict=True)]  # fmt: skip
    same = len(hashes) == 2 and hashes[0] == hashes[1]
    return tuple(d for d in differ if d.blocks and not (same and d.name != "precision"))


def pair_levels(
    old: Conditions, new: Conditions, engines: Sequence[EnginePair], setting: Sequence[Difference]
) -> list[Match]:
    """Every level of both rounds: those that are the same load on paired engines stand together.

    A level that has only its name in common is `different`, as is every pair on another machine or other weights.
    """
    before, after = ([v for t in side.figures.tests for e in t.engines for v in t.levels_of(e)] for side in (old, new))
    by_new, left = {pair.new: pair for pair in engines if pair.new}, list(before)
    found: dict[str, Match] = {}
    for rule in (_same_place, _same_load, _same_name):
        for level in after:
            pair = by_new[level.engine]
            if level.id in found or pair.old is None:
                continue
            partner = _only(rule, level, [v for v in left if v.engine == pair.old])
            if partner is not None:
                left.remove(partner)
                found[level.id] = _match(old, new, pair, partner, level, setting)
    return [found.get(level.id, Match("new", None, level)) for level in after] + [Match("gone", v, None) for v in left]


def _only(rule, level: LevelView, among: Sequence[LevelView]) -> LevelView | None:
    found = [other for other in among if rule(other, level)]
    return found[0] if len(found) == 1 else None


def _load(level: LevelView) -> tuple:
    arrivals = level.repeats[0].facts.arrivals
    return (
        level.kind,
        level.input,
        level.output,
        level.concurrency,
        *(getattr(arrivals, name, None) for name in ARRIVALS),
    )


def _same_place(a: LevelView, b: LevelView) -> bool:
    return _same_name(a, b) and _load(a) == _load(b)


def _same_load(a: LevelView, b: LevelView) -> bool:
    return _load(a) == _load(b)


def _same_name(a: LevelView, b: LevelView) -> bool:
    return (a.test, a.name) == (b.test, b.name)


def _match(
    old: Conditions, new: Conditions, pair: EnginePair, a: LevelView, b: LevelView, setting: Sequence[Difference]
) -> Match:
    files = [view.repeats[0].facts_file for view in (a, b)]
    definition, cautions = (
        [d for d in compared("level", old.stated(files[0], **names), new.stated(files[1], **names), blocks=blocks)
         if not d.same]
        for names, blocks in ((DEFINITION, True), (CAUTIONS, False))
    )  # fmt: skip
    because = (*setting, *pair.blocks, *definition)
    flagged = _flagged(flags_of(old.figures, a), flags_of(new.figures, b))
    return Match("different" if because else "matched", a, b, because, tuple(cautions), flagged)


def flags_of(figures: Figures, level: LevelView) -> list[str]:
    """Kinds of the warnings of a level, each once."""
    return list(dict.fromkeys(flag.kind for flag in figures.flags if flag.scope == level.id))


def _flagged(old: Sequence[str], new: Sequence[str]) -> tuple[Flagged, ...]:
    return tuple(Flagged(kind, kind in new) for kind in dict.fromkeys([*new, *old]) if (kind in new) != (kind in old))
