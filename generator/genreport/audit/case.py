"""What every check of a round needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from genreport.audit.links import Links
from genreport.audit.manifest import Manifest
from genreport.audit.others import Others
from genreport.audit.report import Report


@dataclass(frozen=True)
class Case:
    """One round under audit: its manifest, the words it knows of itself (see `names`), the site's links, the report."""

    manifest: Manifest
    vocabulary: str
    links: Links
    report: Report

    @cached_property
    def others(self) -> Others:
        """The other rounds of the site."""
        return Others(self.folder)

    @property
    def folder(self) -> Path:
        return self.manifest.folder

    @property
    def figures(self) -> dict[str, dict]:
        return self.manifest.figures

    def follow(self, page: Path, target: str) -> bool:
        """Counts a link and reports what is wrong with it; whether it leads somewhere."""
        self.report.count("links")
        problem = self.links.problem(page, target)
        if problem:
            self.report.fail(page, problem)
        return problem is None

    def once(self, what: str, id: str) -> None:
        """Counts a figure of this round under a heading, once."""
        self.report.count_once(what, (self.folder.name, id))
