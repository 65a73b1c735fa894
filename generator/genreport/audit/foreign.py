"""Figures that a round borrows from another one of the same site: each must stand there, with the same value and unit."""

from __future__ import annotations

from typing import Any

from genreport.audit.case import Case
from genreport.audit.manifest import Manifest
from genreport.audit.others import SEAL, borrowed, cited
from genreport.places import raw_file

# what a borrowed figure must have in common with the one it is borrowed from
SHARED = ("value", "unit", "n", "notes", "reason")


def original(case: Case, id: str) -> dict[str, Any]:
    """A figure as the round has it that computed it; nothing where there is none."""
    figure = case.figures.get(id, {})
    source = borrowed(figure)
    return figure if source is None else case.others.figure(source["round"], source["figure"], source["seal"])


def check_foreign(case: Case) -> None:
    """Every borrowed figure against the manifest it is borrowed from, and that manifest's seal against its file."""
    for name in cited(case.figures):
        with case.report.guard(case.folder, f"borrows from {name!r}"):
            _check_seal(case, case.others.manifest(name))
    for figure in case.figures.values():
        if (source := borrowed(figure)) is not None:
            with case.report.guard(figure["id"], "is borrowed"):
                _check(case, figure, source)


def _check_seal(case: Case, manifest: Manifest) -> None:
    if not (manifest.folder / raw_file(SEAL)).is_file():
        case.report.fail(manifest.folder, "is compared with, and has no seal")


def _check(case: Case, figure: dict[str, Any], source: dict[str, Any]) -> None:
    case.report.count("borrowed figures")
    there = case.others.figure(source["round"], source["figure"], source["seal"])
    wrong = [name for name in SHARED if figure.get(name) != there.get(name)]
    if wrong:
        case.report.fail(figure["id"], f"differs in {', '.join(wrong)} from {source['figure']} of {source['round']}")
