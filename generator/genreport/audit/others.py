"""The other rounds of a site, as far as one borrows figures from them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from genreport.audit.manifest import Manifest, read_manifest
from genreport.audit.report import Report
from genreport.errors import AuditError

SEAL = "seal.json"


class Others:
    """The manifests of the rounds that lie beside one in a site, each read once; what is wrong with one is its own failure."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = cache(self._manifest)

    def _manifest(self, round: str) -> Manifest:
        found = None
        if "/" not in round and round not in ("", ".", ".."):
            found = read_manifest(self.folder.parent / round, Report())
        if found is None:
            raise AuditError("the site holds no such round, or none that can be read", where=round)
        return found

    def figure(self, round: str, id: str, seal: str) -> dict[str, Any]:
        """A figure of another round; AuditError where that round or figure is not there, or the round is another one."""
        manifest = self.manifest(round)
        if manifest.files.get(SEAL, {}).get("sha256") != seal:
            raise AuditError("the round in the site has another seal than the one compared with", where=round)
        if id not in manifest.figures:
            raise AuditError("that round has no such figure", where=f"{round}: {id}")
        return manifest.figures[id]

    def value(self, round: str, id: str, seal: str) -> Any:
        return self.figure(round, id, seal)["value"]


def borrowed(figure: dict[str, Any]) -> dict[str, Any] | None:
    """The source of a figure that is another round's, else `None`."""
    return next((source for source in figure.get("sources", []) if source.get("type") == "foreign"), None)


def cited(figures: dict[str, dict[str, Any]]) -> list[str]:
    """Names of the other rounds that a manifest borrows from, in their order."""
    return list(dict.fromkeys(str(source.get("round")) for figure in figures.values() if (source := borrowed(figure))))
