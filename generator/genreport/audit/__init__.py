"""Checks a built site against the evidence it carries, by reading what was published, not what was meant.

A file a concern: `listings` (raw files, their listings, the index of both), `figures` (each recomputed by `evaluate`),
`derivations` (each entry says what the manifest says), `pages` (numbers, names, tooltips, links), `charts` (points, texts
and words). `manifest` reads what all are held against, `report` counts and collects. Zero checked is a failure, and nothing
in a damaged site ends an audit early.
"""

from __future__ import annotations

from pathlib import Path

from genreport.audit.case import Case
from genreport.audit.derivations import check_derivations
from genreport.audit.figures import check_all, check_figures
from genreport.audit.links import Links
from genreport.audit.listings import check_files, check_index, check_listings
from genreport.audit.manifest import read_manifest
from genreport.audit.names import vocabulary
from genreport.audit.pages import check_pages
from genreport.audit.report import NEEDED, Report
from genreport.errors import AuditError
from genreport.places import RAW

__all__ = ["Report", "audit", "check_figures"]

CHECKS = (check_files, check_all, check_pages, check_derivations, check_listings, check_index)


def audit(site: str | Path) -> Report:
    """Audits every round of a built site."""
    site, report = Path(site), Report(dict.fromkeys(NEEDED, 0))
    if not site.is_dir():
        raise AuditError("no such folder", where=str(site), cure="run `genreport build` first")
    links = Links(site)
    for folder in sorted(path for path in site.glob("rounds/*") if path.is_dir()):
        with report.guard(folder):
            _audit_round(folder, links, report)
        report.count("rounds")
    for what in NEEDED:
        if report.counts[what] == 0:
            report.fail(site, f"nothing to check: 0 {what}")
    return report


def _audit_round(folder: Path, links: Links, report: Report) -> None:
    manifest = read_manifest(folder, report)
    if manifest is None:
        return
    case = Case(manifest, vocabulary(folder / RAW), links, report)
    for check in CHECKS:
        with report.guard(folder):
            check(case)
