"""Two rounds, one honest difference: what changed around them, which levels are the same, and what differs by how much.

`compare` enters every number into the new round's ledger, those of the old round as borrowed figures, so that pages,
`explain` and the audit treat them as any other. The unit of replication is the repeat of a level, never the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from genreport.comparing import environment, failing, matching
from genreport.comparing.environment import Conditions, Difference, Place, sealed
from genreport.comparing.families import COMPARED, EXACT, EXACT_OF_ENGINE, FAMILIES, FROM_SENDING, figures_of
from genreport.comparing.judging import Judging, Subject
from genreport.comparing.matching import EnginePair, Flagged, Match, flags_of
from genreport.comparing.noise import Noise
from genreport.comparing.verdicts import CODE, FAILED, STATES, VERDICTS, Compared, Comparer, Exact, pointed, pointer_to
from genreport.figures import Figures, LevelView, compute, planned
from genreport.figures.book import Book
from genreport.figures.flags import PREFIX_HITS

__all__ = [
    "FAMILIES", "STATES", "VERDICTS", "Compared", "Comparison", "Difference", "EnginePair", "Exact", "Family", "LevelPair",
    "Noise", "Place", "compare", "opened", "sealed",
]  # fmt: skip

# what a prefix cache shortens
WAITS = ("ttft.p50", "ttft.p99", "due_ttft.p50", "due_ttft.p99")
# what a reader wants to see first: changes, then what could not be told, then the rest
IMPORTANCE = (
    "regressed",
    "improved",
    "changed",
    "inconclusive",
    "equivalent",
    "too_few",
    "not_comparable",
    "outside",
    "equal",
)


@dataclass(frozen=True)
class Family:
    """The figures whose verdicts are corrected together; their number and threshold stand below `scope`."""

    name: str
    figures: tuple[str, ...]
    scope: str


@dataclass(frozen=True)
class LevelPair:
    """A level in both rounds or in one: its state, what makes it different, and its figures.

    `id` is the scope of its figures in the new round's ledger, `id.state` the code of its state. `fails_more`: a larger share
    of its requests failed than before. `cached`: a prefix cache answered another share of its prompts.
    """

    id: str
    state: str
    old: LevelView | None
    new: LevelView | None
    because: tuple[Difference, ...] = ()
    cautions: tuple[Difference, ...] = ()
    flagged: tuple[Flagged, ...] = ()
    figures: tuple[Compared, ...] = ()
    exact: tuple[Exact, ...] = ()
    fails_more: bool = False
    cached: bool = False

    @property
    def doubted(self) -> bool:
        """Whether there is something to know beside a comparison of the two."""
        return self.state == "matched" and bool(self.cautions or self.flagged or self.cached)


@dataclass(frozen=True)
class Comparison:
    """A later round against an earlier one; every number of it is a figure of the later round's ledger.

    `same`: both are one and the same round. `setting`: what makes the machine another one; then nothing gets a verdict.
    """

    old: Figures
    new: Figures
    slug: str
    same: bool
    environment: tuple[Difference, ...]
    engines: tuple[EnginePair, ...]
    levels: tuple[LevelPair, ...]
    family: Family
    exact: tuple[Exact, ...]
    borrow: Callable[[str], str | None] = field(repr=False)

    @property
    def name(self) -> str:
        return self.old.round.name

    @property
    def scope(self) -> str:
        return f"against.{self.slug}"

    @property
    def setting(self) -> tuple[Difference, ...]:
        return tuple(d for d in self.environment if d.topic == "machine" and d.blocks and not d.same)

    @property
    def failing(self) -> list[LevelPair]:
        """Levels on which more requests fail than before; together they are `scope.failing.failed` of `.sent`."""
        return [level for level in self.levels if level.fails_more]

    @property
    def figures(self) -> Iterator[Compared]:
        return (compared for level in self.levels for compared in level.figures)

    def ranked(self) -> list[tuple[LevelPair, Compared]]:
        """Every compared figure, the largest certain changes first."""
        found = [(level, compared) for level in self.levels for compared in level.figures]
        return sorted(found, key=lambda item: (IMPORTANCE.index(item[1].verdict), -self._size(item[1])))

    def _size(self, compared: Compared) -> float:
        ratio = self.new.ledger.get(f"{compared.scope}.ratio")
        return 0.0 if ratio is None or ratio.missing else max(ratio.value, 1 / ratio.value)

    def count(self, verdict: str) -> str:
        """Id of the number of compared figures with a verdict."""
        return f"{self.scope}.count.{verdict}"


def opened(
    new: str, old: str, *, names: Mapping[str, str] | None = None, noise: Noise | None = None, family: str = "all"
) -> Comparison:
    """Verifies two rounds, computes their figures and compares them; GenreportError names what is wrong with either."""
    later, earlier = (sealed(path) for path in (new, old))
    return compare(
        *(compute(found, resampled=True) for found in (later, earlier)), names=names, noise=noise, family=family
    )


def compare(
    new: Figures,
    old: Figures,
    *,
    names: Mapping[str, str] | None = None,
    noise: Noise | None = None,
    family: str = "all",
) -> Comparison:
    """Compares a round with an earlier one, and enters the numbers into the later one's ledger.

    `names`: engines that were renamed, old -> new. `noise`: floors measured between rounds without a change. `family`: one
    of FAMILIES, or figures with commas between them; they are corrected together.
    """
    return _Story(new, old, names or {}, noise or Noise(()), family).told()


class _Story:
    """One comparison in the making."""

    def __init__(self, new: Figures, old: Figures, names: Mapping[str, str], noise: Noise, family: str) -> None:
        self.new, self.old, self.names, self.noise = new, old, names, noise
        self.sides = Conditions(old), Conditions(new)
        self.slug = environment.slug_of(old.round.name)
        self.seals = [environment.seal_of(side.round) for side in (old, new)]
        self.same = len(set(self.seals)) == 1
        self.comparer = Comparer(Book(new.round, new.ledger), old.ledger, old.round.name, self.seals[0], self.slug)
        self.family = Family(family, figures_of(family), f"against.{self.slug}.family")

    def told(self) -> Comparison:
        engines = matching.pair_engines(*self.sides, self.names)
        found = self._environment(engines)
        setting = tuple(d for d in found if d.topic == "machine" and d.blocks and not d.same)
        levels = [self._level(match) for match in matching.pair_levels(*self.sides, engines, setting)]
        levels = self._judged(levels)
        self._count(levels)
        if more := [(level.id, level.new.id) for level in levels if level.fails_more]:
            failing.total(self.comparer, more)
        exact = () if setting else tuple(e for pair in engines for e in self._exact_of_engine(pair))
        return Comparison(self.old, self.new, self.slug, self.same, tuple(found), tuple(engines), tuple(levels),
                          self.family, exact, self.comparer.borrow)  # fmt: skip

    def _environment(self, engines: Sequence[EnginePair]) -> list[Difference]:
        old, new = self.sides
        found = environment.of_machine(old, new)
        for topic, read in (("system", Conditions.system), ("tool", Conditions.tool)):
            found += environment.compared(topic, read(old), read(new))
        for pair in (pair for pair in engines if pair.old and pair.new):
            for before, after in self._starts(pair):
                found += environment.of_engine(old, new, before, after)
            for d in environment.of_ceilings(old, new, pair.old, pair.new):
                found.append(replace(d, figures=(self.comparer.borrow(d.figures[0]), d.figures[1])))
            found += environment.compared("sampling", old.sampling(pair.old), new.sampling(pair.new), scope=pair.new)
        return found + environment.of_plan(old, new)

    def _starts(self, pair: EnginePair) -> Iterator[tuple]:
        """The starts of an engine that both rounds have: the one for all tests, then those that a test has for itself."""
        old, new = (
            {start.id.removeprefix(id): start for start in side.figures.starts if start.engine == id}
            for side, id in zip(self.sides, (pair.old, pair.new), strict=True)
        )
        yield from ((old[which], new[which]) for which in new if which in old)

    # ------------------------------------------------------------------------------------------------ levels

    def _level(self, match: Match) -> LevelPair:
        """One level with its state and the figures that both rounds have of it; verdicts come later."""
        if match.new is None:
            id = f"{self.comparer.scope}.gone.{match.old.id}"
            self.comparer.code(f"{id}.state", "gone", old=self.comparer.borrow(f"{match.old.id}.completed"))
            return LevelPair(id, "gone", match.old, None)
        if match.old is None:
            id = f"{self.comparer.scope}.{match.new.id}"
            place = self.sides[1].place(match.new.repeats[0].facts_file, "/level")
            self.comparer.code(f"{id}.state", "new", pointer_to(place), new=f"{match.new.id}.completed")
            return LevelPair(id, "new", None, match.new)
        return self._both(match)

    def _both(self, match: Match) -> LevelPair:
        """A level that both rounds have: comparable, different, or failed in one of them."""
        id = f"{self.comparer.scope}.{match.new.id}"
        for name in ("concurrency", "input", "output", "repeats", "failed", "prefix_hit_share"):
            self.comparer.borrow(f"{match.old.id}.{name}")
        completed = {"old": self.comparer.borrow(f"{match.old.id}.completed"), "new": f"{match.new.id}.completed"}
        more = not match.because and failing.enter(self.comparer, id, match.old, match.new)
        cached = self._cached(match)
        pair = LevelPair(id, match.state, match.old, match.new, match.because, match.cautions, match.flagged,
                         fails_more=more, cached=cached)  # fmt: skip
        if not min(self.comparer.value(i) for i in completed.values()):
            self.comparer.code(f"{id}.state", "failed", formula=FAILED, **completed)
            return replace(pair, state="failed")
        self.comparer.code(f"{id}.state", match.state, *pointed(match.because), **completed)
        figures = tuple(self._figure(id, match, figure) for figure in self._figures_of(match))
        return replace(pair, figures=figures, exact=tuple(self._exact(id, match)))

    def _figures_of(self, match: Match) -> Iterator[str]:
        """Figures that at least one round has a value of."""
        left_out = FROM_SENDING if match.new.open_loop else ()
        for figure in (figure for figure in COMPARED if figure not in left_out):
            known = [side.get(f"{v.id}.{figure}") for side, v in
                     ((self.old.ledger, match.old), (self.new.ledger, match.new))]  # fmt: skip
            if all(q is not None for q in known) and not all(q.missing for q in known):
                yield figure

    def _figure(self, id: str, match: Match, figure: str) -> Compared:
        new_id, old_id = f"{match.new.id}.{figure}", self.comparer.borrow(f"{match.old.id}.{figure}")
        direction = COMPARED[figure]
        return Compared(figure, new_id, old_id, f"{id}.{figure}", direction)

    def _exact(self, id: str, match: Match) -> Iterator[Exact]:
        asked = [(len(v.repeats), {r.facts.requests for r in v.repeats}) for v in (match.old, match.new)]
        comparable = match.state == "matched" and asked[0] == asked[1]
        for figure in EXACT:
            found = self.comparer.exact(f"{id}.{figure}", figure, f"{match.old.id}.{figure}", f"{match.new.id}.{figure}",
                                        comparable=comparable)  # fmt: skip
            if found is not None:
                yield found

    def _exact_of_engine(self, pair: EnginePair) -> Iterator[Exact]:
        if pair.old is None or pair.new is None:
            return
        for figure in EXACT_OF_ENGINE:
            scope = f"{self.comparer.scope}.engine.{pair.new}.{figure}"
            found = self.comparer.exact(scope, figure, f"engine.{pair.old}.{figure}", f"engine.{pair.new}.{figure}",
                                        comparable=True)  # fmt: skip
            if found is not None:
                yield found

    # ------------------------------------------------------------------------------------------------ verdicts

    def _judged(self, levels: list[LevelPair]) -> list[LevelPair]:
        """Judges every figure of the levels that can be compared; the others stand side by side."""
        subjects = [self._subject(level, c) for level in levels for c in level.figures if self._comparable(level, c)]
        judging = Judging(self.comparer, self.family.figures, self.noise.floors, same=self.same)
        found = judging.judged(subjects)
        for level in levels:
            found |= {c.scope: self._apart(level, c) for c in level.figures if c.scope not in found}
        return [replace(level, figures=tuple(found[c.scope] for c in level.figures)) for level in levels]

    def _comparable(self, level: LevelPair, c: Compared) -> bool:
        """Goodput counts what meets the limits, a wait what a cache did not spare: with others it is another figure."""
        if c.figure in ("goodput", "due_goodput") and self._limits(self.old) != self._limits(self.new):
            return False
        return level.state == "matched" and not (c.figure in WAITS and level.cached)

    def _cached(self, match: Match) -> bool:
        """Whether a prefix cache answered another share of the prompts than before, or nobody knows which."""
        sides = ((self.old, match.old), (self.new, match.new))
        if not any("prefix_cache" in flags_of(figures, view) for figures, view in sides):
            return False
        shares = [figures.ledger.get(f"{view.id}.prefix_hit_share") for figures, view in sides]
        old, new = (None if share is None else share.value for share in shares)
        return old is None or new is None or abs(new - old) > PREFIX_HITS

    @staticmethod
    def _limits(side: Figures) -> list[dict]:
        listed = planned.entries(side.round.plan, "slos")
        return [{key: value for key, value in slo.items() if key != "id"} for _, slo in listed]

    def _subject(self, level: LevelPair, c: Compared) -> Subject:
        old = [id for id in map(self.comparer.borrow, level.old.ids(c.figure)) if id]
        sides = (tuple(self.comparer.book.observed(ids)) for ids in (old, level.new.ids(c.figure)))
        return Subject(c, level.new.engine, *sides)

    def _apart(self, level: LevelPair, c: Compared) -> Compared:
        self.comparer.side_by_side(c)
        return self.comparer.constant(c, "not_comparable", *pointed(level.because), old=c.old_id, new=c.new_id)

    # ------------------------------------------------------------------------------------------------ counts

    def _count(self, levels: Sequence[LevelPair]) -> None:
        verdicts = [f"{c.scope}.verdict" for level in levels for c in level.figures]
        states = [f"{level.id}.state" for level in levels]
        self._counted("count", "verdicts", verdicts, VERDICTS.values())
        self._counted("levels", "states", states, STATES.values())

    def _counted(self, name: str, alias: str, ids: Sequence[str], words) -> None:
        book, scope = self.comparer.book, f"{self.comparer.scope}.{name}"
        book.derive(f"{scope}.codes", "1", alias, lambda **given: given[alias], n=len(ids), carry=False, **{alias: ids})
        for word in words:
            code = CODE[word]
            book.derive(f"{scope}.{word}", "count", f"sum(where(codes == {code}, 1, 0))",
                        lambda codes, code=code: (codes == code).sum(), codes=f"{scope}.codes")  # fmt: skip
