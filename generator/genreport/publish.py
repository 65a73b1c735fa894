"""From rounds to a site: computes, recomputes by the second path, writes the pages, and hands all to `site`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genreport import site
from genreport.audit import Report, check_figures
from genreport.errors import BuildError
from genreport.evaluate import Evidence
from genreport.figures import Figures, compute
from genreport.pages import shared_context, write
from genreport.provenance import Quantity, Tally
from genreport.reports import all_pages
from genreport.rounds import Round, verified
from genreport.site import Built, SitePages

TALLIES = ("figures", "recomputed", "missing", "failures", "files", "requests", "levels")
# ids of the counts of the evidence page: figures about the other figures
EVIDENCE = tuple(f"evidence.{what}" for what in TALLIES)


def publish(paths: Sequence[Path], target: Path) -> Built:
    """Builds the site of these rounds, every hash checked first; the old site stays on any failure."""
    return site.build([verified(path) for path in paths], pages_of, target)


def preview(paths: Sequence[Path], port: int) -> int:
    """Serves the site of these rounds with reload until interrupted."""
    return site.serve([verified(path) for path in paths], pages_of, address=f"127.0.0.1:{port}")


def pages_of(round: Round) -> SitePages:
    """All pages of one round, after every figure was computed twice and agreed."""
    figures = figures_of(round)
    shared = shared_context(figures)
    return SitePages(
        figures.ledger, [(w.path, w.text) for w in (write(p, figures.ledger, shared) for p in all_pages(figures))]
    )


def figures_of(round: Round) -> Figures:
    """Every figure of a round, those of the evidence page included, which count the agreement of all others."""
    figures = compute(round)
    _enter_tallies(figures, _recomputed(figures))
    return figures


def _recomputed(figures: Figures) -> Report:
    manifest = figures.ledger.manifest(figures.round.name, {})
    report = Report()
    known = {figure["id"]: figure for figure in manifest["figures"]}
    check_figures(known, known, Evidence(figures.round.bytes, manifest["columns"]), report)
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
