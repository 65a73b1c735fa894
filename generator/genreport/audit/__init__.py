"""Checks a built site against the evidence it carries, by reading what was published, not what was meant.

A file a concern: `listings` (raw files, their listings, the index of both), `figures` (each recomputed by `evaluate`),
`derivations` (each entry says what the manifest says), `pages` (numbers, names, links), `cards` (what stands under the
pointer), `requests` (what stands beside the records for the page of one), `charts` (points, texts
and words), `onefile` (the guide to mail), `rounds` (the list of rounds). `manifest` reads what all are held against, `report`
counts and collects. Zero checked is a failure, and nothing in a damaged site ends an audit early.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from genreport.audit.cards import check_cards
from genreport.audit.case import Case
from genreport.audit.derivations import check_derivations
from genreport.audit.figures import check_all, check_figures
from genreport.audit.foreign import check_foreign
from genreport.audit.links import Links
from genreport.audit.listings import check_files, check_index, check_listings
from genreport.audit.manifest import read_manifest
from genreport.audit.names import vocabulary
from genreport.audit.onefile import check_onefile
from genreport.audit.others import cited
from genreport.audit.pages import check_pages
from genreport.audit.report import NEEDED, Report
from genreport.audit.requests import check_requests
from genreport.audit.rounds import check_list
from genreport.errors import AuditError
from genreport.places import RAW

__all__ = ["Report", "audit", "check_figures"]

CHECKS = (
    check_files, check_all, check_foreign, check_pages, check_cards, check_derivations, check_onefile, check_listings,
    check_requests,
    check_index,
)  # fmt: skip


def audit(site: str | Path) -> Report:
    """Audits every round of a built site."""
    site, report = Path(site), Report(dict.fromkeys(NEEDED, 0))
    if not site.is_dir():
        raise AuditError("no such folder", where=str(site), cure="run `genreport build` first")
    links, cases = Links(site), {}
    for folder in sorted(path for path in site.glob("rounds/*") if path.is_dir()):
        with report.guard(folder):
            _audit_round(folder, links, report, cases)
        report.count("rounds")
    check_list(site, cases, links, report)
    for what in NEEDED:
        if report.counts[what] == 0:
            report.fail(site, f"nothing to check: 0 {what}")
    return report


def _audit_round(folder: Path, links: Links, report: Report, cases: dict[str, Case]) -> None:
    manifest = read_manifest(folder, report)
    if manifest is None:
        return
    known = [vocabulary(folder / RAW), *_of_others(folder, cited(manifest.figures))]
    cases[folder.name] = case = Case(manifest, "\n".join(known), links, report)
    for check in CHECKS:
        with report.guard(folder):
            check(case)


def _of_others(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """The words of the rounds that one borrows from: its pages call their engines and versions by name."""
    return (vocabulary(folder.parent / name / RAW) for name in names if "/" not in name and name not in (".", ".."))
