"""Every figure of a manifest a second time, from its formula text, its sources and the values of its inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from genreport import cores
from genreport.audit.case import Case
from genreport.audit.report import Report
from genreport.evaluate import Evidence, recompute
from genreport.places import raw_file

FIT = "usl(c, x)"
# how far apart two values of one figure may lie: rounding in another order, nothing else
RELATIVE, ABSOLUTE = 1e-9, 1e-12
# rows from which on it pays to start further processes, and the parts that they share
MANY, PARTS = 2000, 8


def check_figures(
    known: Mapping[str, dict[str, Any]], figures: Mapping[str, dict[str, Any]], evidence: Evidence, report: Report
) -> None:
    """Recomputes each of the figures; `known` holds those that may be its inputs. Very many rows are work for all cores."""
    parts = _parts(figures)
    tasks = [(part, _inputs(part, known)) for part in parts]
    for found in cores.each(partial(_checked, evidence.read, evidence.columns), tasks):
        report.add(found)
    apart = {figure["id"] for part in parts for figure in part}
    _check_each([figure for figure in figures.values() if figure["id"] not in apart], known, evidence, report)


def _check_each(
    figures: Iterable[dict[str, Any]], known: Mapping[str, dict], evidence: Evidence, report: Report
) -> None:
    for figure in figures:
        with report.guard(figure["id"], "cannot be recomputed"):
            _check(figure, known, evidence, report)


def _checked(
    read: Callable[[str], bytes], columns: Mapping[str, str], task: tuple[list[dict[str, Any]], dict[str, dict]]
) -> Report:
    report = Report()
    _check_each(*task, Evidence(read, columns), report)
    return report


def _parts(figures: Mapping[str, dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Whole levels in parts of about as many rows each; none where the rows are few."""
    levels: dict[str, list[dict[str, Any]]] = {}
    for figure in figures.values():
        if level := _level(figure):
            levels.setdefault(level, []).append(figure)
    found = list(levels.values())
    rows = [max((_rows(figure) for figure in level), default=0) for level in found]
    if sum(rows) < MANY:
        return []
    return [[figure for place in sorted(part) for figure in found[place]] for part in cores.shared_out(rows, PARTS)]


def _level(figure: dict[str, Any]) -> str | None:
    """The level whose files, and no other's, a figure is read from."""
    files = [file for source in figure.get("sources", []) for file in source.get("files", [source.get("file")])]
    levels = {file and "/".join(file.split("/")[:4]) for file in files}
    level = levels.pop() if len(levels) == 1 else None
    return level if level and level.startswith("levels/") else None


def _rows(figure: dict[str, Any]) -> int:
    counts = [source.get("count") for source in figure.get("sources", []) if source.get("type") == "rows"]
    return max((count for count in counts if isinstance(count, int)), default=0)


def _inputs(figures: Iterable[dict[str, Any]], known: Mapping[str, dict]) -> dict[str, dict]:
    """The values that these figures' formulas name."""
    given = [ids for figure in figures for ids in figure.get("inputs", {}).values()]
    ids = dict.fromkeys(id for ids in given for id in ([ids] if isinstance(ids, str) else ids))
    return {id: {"value": known[id]["value"]} for id in ids if id in known}


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
    if isinstance(value, float) and isinstance(again, float):  # most figures; numpy takes thirty times as long
        return abs(value - again) <= ABSOLUTE + RELATIVE * abs(again)
    a, b = np.atleast_1d(np.asarray(value, float)), np.atleast_1d(np.asarray(again, float))
    return a.shape == b.shape and bool(np.all(np.isclose(a, b, rtol=RELATIVE, atol=ABSOLUTE)))


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
        return evidence.count(source["files"], source["where"])
    if source["type"] == "lines":
        lines = evidence.lines(source["file"])[source["first"] - 1 : source["last"]]
        return sum(1 for line in lines if re.search(source["pattern"], line))
    return None


def check_all(case: Case) -> None:
    """All figures of a round; last those that count the others, held against what was counted here."""
    evidence = Evidence(partial(_stored, case.folder), case.manifest.columns, foreign=case.others.value)
    own, figures = Report(), case.figures
    check_figures(figures, {id: f for id, f in figures.items() if not _is_tally(f)}, evidence, own)
    evidence.tallies = _tallies(case, evidence, own)
    check_figures(figures, {id: f for id, f in figures.items() if _is_tally(f)}, evidence, own)
    case.report.add(own)


def _stored(folder: Path, file: str) -> bytes:
    return (folder / raw_file(file)).read_bytes()


def _tallies(case: Case, evidence: Evidence, own: Report) -> dict[str, int]:
    files, requests = case.manifest.files, 0
    failures = len(own.failures)
    for name in files:
        if name.endswith("/requests.jsonl"):
            with own.guard(name):
                requests += sum(1 for line in (case.folder / raw_file(name)).read_bytes().split(b"\n") if line)
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
