"""Every figure of a manifest a second time, from its formula text, its sources and the values of its inputs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from genreport.audit.case import Case
from genreport.audit.report import Report
from genreport.evaluate import Evidence, recompute
from genreport.places import raw_file

FIT = "usl(c, x)"


def check_figures(
    known: Mapping[str, dict[str, Any]], figures: Mapping[str, dict[str, Any]], evidence: Evidence, report: Report
) -> None:
    """Recomputes each of the figures; `known` holds those that may be its inputs."""
    for figure in figures.values():
        with report.guard(figure["id"], "cannot be recomputed"):
            _check(figure, known, evidence, report)


def _check(figure: dict[str, Any], known: Mapping[str, dict], evidence: Evidence, report: Report) -> None:
    if figure["value"] is None:
        report.count("figures n/a")
        if not figure.get("reason"):
            report.fail(figure["id"], "n/a without a reason")
        return
    report.count("figures recomputed")
    again = recompute(figure, evidence, known)
    agree = _same_curve(figure, again, known) if figure["formula"] == FIT else _close(figure["value"], again)
    if not agree:
        report.fail(figure["id"], f"{figure['value']!r} in the manifest, {again!r} by `{figure['formula']}`")
    for source in figure.get("sources", []):
        found = _found(source, evidence)
        if found is not None and found != source["count"]:
            report.fail(figure["id"], f"selects {found} {source['type']}, the manifest says {source['count']}")


def _close(value: Any, again: Any) -> bool:
    a, b = np.atleast_1d(np.asarray(value, float)), np.atleast_1d(np.asarray(again, float))
    return a.shape == b.shape and bool(np.all(np.isclose(a, b, rtol=1e-9, atol=1e-12)))


def _same_curve(figure: dict[str, Any], again: Any, known: Mapping[str, dict]) -> bool:
    """Two optimisers may end far apart in a flat valley; what must agree is the throughput that their curves predict."""
    c = np.array([known[id]["value"] for id in figure["inputs"]["c"]], float)
    published, second = (predicted(c, *fit) for fit in (figure["value"], again))
    return bool(np.all(np.abs(published - second) <= 1e-3 * second.max()))


def predicted(c: np.ndarray, lam: float, sigma: float, kappa: float) -> np.ndarray:
    """Throughput at each C by the Universal Scalability Law."""
    return lam * c / (1 + sigma * (c - 1) + kappa * c * (c - 1))


def _found(source: dict[str, Any], evidence: Evidence) -> int | None:
    """How many rows or lines a source selects."""
    if source["type"] == "rows":
        return len(evidence.selected(tuple(source["files"]), source["where"]))
    if source["type"] == "lines":
        lines = evidence.lines(source["file"])[source["first"] - 1 : source["last"]]
        return sum(1 for line in lines if re.search(source["pattern"], line))
    return None


def check_all(case: Case) -> None:
    """All figures of a round; last those that count the others, held against what was counted here."""
    evidence = Evidence(lambda file: (case.folder / raw_file(file)).read_bytes(), case.manifest.columns)
    own, figures = Report(), case.figures
    check_figures(figures, {id: f for id, f in figures.items() if not _is_tally(f)}, evidence, own)
    evidence.tallies = _tallies(case, evidence, own)
    check_figures(figures, {id: f for id, f in figures.items() if _is_tally(f)}, evidence, own)
    case.report.add(own)


def _tallies(case: Case, evidence: Evidence, own: Report) -> dict[str, int]:
    files, requests = case.manifest.files, 0
    failures = len(own.failures)
    for name in files:
        if name.endswith("/requests.jsonl"):
            with own.guard(name):
                requests += len(evidence.rows(name))
    return {
        "figures": own.counts.get("figures recomputed", 0) + own.counts.get("figures n/a", 0),
        "recomputed": own.counts.get("figures recomputed", 0),
        "missing": own.counts.get("figures n/a", 0),
        "failures": failures,
        "files": len(files),
        "requests": requests,
        "levels": sum(name.endswith("/facts.json") for name in files),
    }


def _is_tally(figure: dict[str, Any]) -> bool:
    return any(source.get("type") == "tally" for source in figure.get("sources", []))
