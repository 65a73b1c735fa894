"""From rounds to a site: computes, recomputes by the second path, writes the pages, and hands all to `site`."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from genreport import site
from genreport.audit import Report, check_figures
from genreport.comparing import Comparison, Noise, compare, sealed
from genreport.comparing.environment import slug_of
from genreport.comparing.hypotheses import Judged, judge
from genreport.comparing.lineage import in_time, lender, predecessors
from genreport.errors import BuildError, OptionError
from genreport.evaluate import Evidence
from genreport.figures import Figures, Limit, compute, engines_of
from genreport.figures.limits import OPTION
from genreport.onefile import Mailed, guide_file, tells_a_guide
from genreport.pages import list_entry, round_list, shared_context, write
from genreport.provenance import Ledger, Quantity, Tally
from genreport.reports import against, all_pages
from genreport.reports.history import Entry, History, borrow
from genreport.rounds import Round, verified
from genreport.site import Built, Pages, SitePages

COLLECT = 50_000, 20, 100  # a build makes millions of small objects and few that refer to each other in a circle
TALLIES = ("figures", "recomputed", "missing", "failures", "files", "requests", "levels")
# ids of the counts of the evidence page: figures about the other figures
EVIDENCE = tuple(f"evidence.{what}" for what in TALLIES)


@dataclass(frozen=True)
class Against:
    """Which rounds are compared, as (later, earlier) paths, and how: see `comparing.compare`."""

    pairs: tuple[tuple[Path, Path], ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    noise: Noise | None = None
    family: str = "all"

    def plain(self) -> dict[str, Any]:
        """What of it a site depends on."""
        noise = self.noise.plain() if self.noise else None
        pairs = [[path.resolve().name for path in pair] for pair in self.pairs]
        return {"pairs": pairs, "names": dict(self.names), "noise": noise, "family": self.family}


def pairs_of(paths: Sequence[Path], against: Sequence[str]) -> tuple[tuple[Path, Path], ...]:
    """The pairs that `--against` asks for: each round with each earlier one, or `ROUND=EARLIER` for one round alone."""
    names, found = {path.resolve().name: path for path in paths}, []
    for given in against:
        later, _, earlier = given.partition("=")
        if earlier and not Path(given).exists():
            if Path(later).name not in names:
                what = f"{later} is not among the rounds being built"
                raise OptionError(what, where=f"--against {given}", cure=f"those are {', '.join(names)}")
            found.append((names[Path(later).name], Path(earlier)))
        else:
            others = [path for path in paths if path.resolve() != Path(given).resolve()]
            found += [(path, Path(given)) for path in others or paths]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Told:
    """A round's figures, its comparisons with earlier ones, and its hypotheses, all entered in its ledger."""

    figures: Figures
    comparisons: tuple[Comparison, ...] = ()
    judged: tuple[Judged, ...] = ()


def publish(paths: Sequence[Path], target: Path, given: Sequence[Limit] = (), compared: Against | None = None) -> Built:
    """Builds the site of these rounds, every hash checked first; the old site stays on any failure.

    `given` are service levels that each round answers beside those of its plan; `compared` says which of the rounds are
    compared with which earlier ones, and those are in the site too.
    """
    gc.set_threshold(*COLLECT)
    compared = compared or Against()
    rounds = _opened(paths, compared)
    options = {OPTION: [limit.text for limit in given], "--against": compared.plain()}
    return site.build(
        list(rounds.values()), _Telling(rounds, given, compared).pages, target, options=options, index=round_list
    )


def _opened(paths: Sequence[Path], compared: Against) -> dict[Path, Round]:
    """Every round of the site, by its path; those that are compared must be sealed, and none be named twice."""
    named = [path.resolve() for path in paths]
    twice = next((path for path in named if named.count(path) > 1), None)
    if twice:
        raise OptionError(f"{twice.name} is named twice", cure="name each round once")
    pairs = [tuple(path.resolve() for path in pair) for pair in compared.pairs]
    for later, earlier in pairs:
        if later == earlier:
            what = f"{later.name} is the earlier round of itself: all is equal"
            raise OptionError(what, where="--against", cure="name another round")
    sealed_ones = {path for pair in pairs for path in pair}
    wanted = {path.resolve(): path for path in (*paths, *(earlier for _, earlier in compared.pairs))}
    return {key: (sealed if key in sealed_ones else verified)(path) for key, path in wanted.items()}


class _Telling:
    """The pages of a site's rounds; rounds that are compared are computed together, once, and recomputed afterwards."""

    def __init__(self, rounds: Mapping[Path, Round], given: Sequence[Limit], compared: Against) -> None:
        self.rounds, self.given, self.compared = rounds, given, compared

    def pages(self, round: Round) -> SitePages:
        told = self._together.get(round.name)
        return _pages(_finished(self._compute(round))) if told is None else _pages(told)

    @cached_property
    def _together(self) -> dict[str, Told]:
        pairs = [tuple(path.resolve() for path in pair) for pair in self.compared.pairs]
        _refuse_alike(pairs)
        taking_part = dict.fromkeys(path for pair in pairs for path in pair)
        figures = {path: self._compute(self.rounds[path], resampled=True) for path in taking_part}
        compared = {path: tuple(self._compare(figures[path], figures[old]) for new, old in pairs if new == path)
                    for path in taking_part}  # fmt: skip
        for comparison in (c for found in compared.values() for c in found):
            against.borrow(comparison)
        ledgers = {found.round.name: found.ledger for found in figures.values()}
        return {figures[path].round.name: _finished(figures[path], compared[path], ledgers) for path in taking_part}

    def _compute(self, round: Round, *, resampled: bool = False) -> Figures:
        return compute(round, self.given, resampled=resampled, palette=engines_of(list(self.rounds.values())))

    def _compare(self, new: Figures, old: Figures) -> Comparison:
        return compare(new, old, names=self.compared.names, noise=self.compared.noise, family=self.compared.family)


def _refuse_alike(pairs: Sequence[tuple[Path, Path]]) -> None:
    """Names that differ only in signs that no id may hold would give two comparisons of a round the same ids."""
    found: dict[tuple[Path, str], str] = {}
    for later, earlier in pairs:
        other = found.setdefault((later, slug_of(earlier.name)), earlier.name)
        if other != earlier.name:
            raise BuildError(
                f"the rounds {other!r} and {earlier.name!r} have the same name in ids", cure="rename one of them"
            )


def _finished(
    figures: Figures, comparisons: tuple[Comparison, ...] = (), ledgers: Mapping[str, Ledger] | None = None
) -> Told:
    """The hypotheses judged, every figure computed a second time, and the counts of the evidence page entered."""
    judged = judge(figures, comparisons)
    _enter_tallies(figures, _recomputed(figures, ledgers or {}))
    return Told(figures, comparisons, judged)


def history(paths: Sequence[Path], target: Path) -> Built:
    """Builds the site of these rounds, each compared with its predecessors in time, and the newest one's history of all."""
    rounds = [sealed(path) for path in paths]
    slugs = [slug_of(found.name) for found in rounds]
    twice = next((found.name for found in rounds if slugs.count(slug_of(found.name)) > 1), None)
    if twice:
        raise BuildError(f"two rounds are called {twice!r}, or nearly so", cure="rename one of the folders")
    return site.build(rounds, _Remembering(rounds).pages, target, options={"history": True}, index=round_list)


class _Remembering:
    """The pages of rounds in time: comparisons are made oldest first, so that a later round can tell of an earlier one's."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = rounds

    def pages(self, round: Round) -> SitePages:
        told, story = self._told
        return _pages(told[round.name], story if round.name == story.newest.name else None)

    def _computed(self) -> list[Figures]:
        palette = engines_of(self.rounds)
        return [compute(round, resampled=True, palette=palette) for round in self.rounds]

    @cached_property
    def _told(self) -> tuple[dict[str, Told], History]:
        entries: list[Entry] = []
        for figures in in_time(self._computed()):
            earlier = predecessors(figures, [entry.figures for entry in entries])
            entries.append(Entry(figures, tuple(compare(figures, other) for other in earlier)))
        for comparison in (c for entry in entries for c in entry.comparisons):
            against.borrow(comparison)
        story = History(entries, lender(entries[-1].figures))
        borrow(story)
        ledgers = {entry.name: entry.figures.ledger for entry in entries}
        return {entry.name: _finished(entry.figures, entry.comparisons, ledgers) for entry in entries}, story


def preview(paths: Sequence[Path], port: int, given: Sequence[Limit] = (), compared: Against | None = None) -> int:
    """Serves the site that `publish` would build, with reload, until interrupted."""
    compared = compared or Against()

    def telling(rounds: Sequence[Round]) -> Pages:
        return _Telling({round.path.resolve(): round for round in rounds}, given, compared).pages

    rounds = list(_opened(paths, compared).values())
    return site.serve(rounds, telling, port=port, index=round_list)


def pages_of(round: Round, given: Sequence[Limit] = ()) -> SitePages:
    """All pages of one round, after every figure was computed twice and agreed."""
    return _pages(_finished(compute(round, given)))


def _pages(told: Told, story: History | None = None) -> SitePages:
    """All pages of a round; with those of a history that it is the newest round of."""
    figures = told.figures.for_pages
    shared, pages = shared_context(figures), all_pages(figures, told.comparisons, told.judged, story)
    mailed = [guide_file(figures, page, shared) for page in pages if tells_a_guide(page)]
    shared |= {"mailed": next(iter(mailed), None)}
    written = [write(page, figures.ledger, shared) for page in pages]
    return SitePages(
        figures.ledger,
        [(page.path, page.text) for page in written],
        list_entry(figures, shared),
        [(file.path, file.text) for file in mailed],
        shown=frozenset().union(*(page.figures for page in written)),
    )


def guide_of(path: Path, given: Sequence[Limit] = ()) -> Mailed:
    """The selection guide of a round as one file, after every figure was computed twice and agreed."""
    told = _finished(compute(verified(path), given))
    figures = told.figures
    page = next(filter(tells_a_guide, all_pages(figures, judged=told.judged)), None)
    if page is None:
        cure = "its plan needs a test of the kind `concurrency`"
        raise BuildError("no concurrency sweep, so the round speaks for no engine", where=figures.round.name, cure=cure)
    return guide_file(figures, page, shared_context(figures))


def ledger_of(
    round: Round, given: Sequence[Limit] = (), *, counted: bool = False, earlier: str | Path | None = None
) -> Ledger:
    """All figures of a round, with its hypotheses and, if an earlier round is named, the comparison with that one.

    `counted`: also the counts of the evidence page, for which every figure is computed a second time.
    """
    figures, comparisons, ledgers = compute(round, given, resampled=earlier is not None), (), {}
    if earlier is not None:
        old = compute(sealed(earlier), given, resampled=True)
        comparisons, ledgers = (compare(figures, old),), {old.round.name: old.ledger}
        against.borrow(comparisons[0])
    if counted:
        return _finished(figures, comparisons, ledgers).figures.ledger
    judge(figures, comparisons)
    return figures.ledger


def figures_of(round: Round, given: Sequence[Limit] = ()) -> Figures:
    """Every figure of a round, those of the evidence page included, which count the agreement of all others."""
    return _finished(compute(round, given)).figures


def _recomputed(figures: Figures, ledgers: Mapping[str, Ledger]) -> Report:
    manifest = figures.ledger.manifest(figures.round.name, {})
    report = Report()
    known = {figure["id"]: figure for figure in manifest["figures"]}
    evidence = Evidence(figures.round.bytes, manifest["columns"], foreign=lambda name, id, _: ledgers[name][id].value)
    check_figures(known, known, evidence, report)
    if report.failures:
        raise BuildError(
            f"{len(report.failures)} figures differ when computed a second time: {'; '.join(report.failures[:3])}",
            where=figures.round.name,
            cure="this is a fault of genreport: please report it",
        )
    return report


def _enter_tallies(figures: Figures, report: Report) -> None:
    round = figures.round
    counted = {
        # of the others: these counts themselves are left out
        "figures": len(figures.ledger),
        "recomputed": report.counts.get("figures recomputed", 0),
        "missing": report.counts.get("figures n/a", 0),
        "failures": len(report.failures),
        "files": len(round.evidence()),
        "requests": sum(round.text(level.requests_file).count("\n") for level in round.levels),
        "levels": len(round.levels),
    }
    for what, id in zip(TALLIES, EVIDENCE, strict=True):
        figures.ledger.add(Quantity(id, counted[what], "count", "tally", sources=(Tally(what),)))
