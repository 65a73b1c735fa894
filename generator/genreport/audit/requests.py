"""The pages of single requests: what stands beside the records for request.js, against records, logs and the manifest.

The arithmetic of request.js itself is held against `evaluate` by tests, in a browser.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from pathlib import Path
from typing import Any

from genreport.audit.case import Case
from genreport.audit.numbers import shows
from genreport.places import RAW, listing_file, raw_file

_TEMPLATE = re.compile(r'<template id="request"([^>]*)>(.*?)</template>', re.S)
_DATA = re.compile(r'\bdata-([a-z-]+)="([^"]*)"')
_NUMBER = re.compile(r'<a class="gr-num" data-id="([^"]*)" href="([^"]*)">([^<]*)</a>')
_COLUMN = re.compile(r'<tr data-column="(\w+)">.*?<code>([^<]*)</code></td></tr>')
_TASK = re.compile(r"\| task (\d+) \|")
# how a log states the two times of a task, as lines that end in these
_STATED = {
    "prompt": r"prompt eval time =\s*([\d.]+) ms /\s*(\d+) tokens",
    "predicted": r"\|\s+eval time =\s*([\d.]+) ms /\s*(\d+) tokens",
}


def check_requests(case: Case) -> None:
    """Every listing of records."""
    for name, known in case.manifest.files.items():
        if not name.endswith("/requests.jsonl"):
            continue
        for page in range(1, len(known.get("pages", [1])) + 1):
            path = case.folder / listing_file(name, page)
            with case.report.guard(path):
                _check(case, path, name)


def _check(case: Case, path: Path, name: str) -> None:
    found = _TEMPLATE.search(path.read_text("utf-8", "surrogatepass"))
    if found is None:
        return case.report.fail(path, "has no page for a request")
    data, body = {key: html.unescape(text) for key, text in _DATA.findall(found[1])}, found[2]
    log = f"{name.rpartition('/')[0]}/engine.log.gz"
    known, log_known = case.manifest.files[name], case.manifest.files.get(log)
    expected = {
        "lines": known["lines"],
        "starts": known.get("pages", [1]),
        "log-starts": log_known.get("pages", [1]) if log_known else [],
    }
    for key, value in expected.items():
        if json.loads(data[key]) != value:
            case.report.fail(path, f"says {key} {data[key]}, the manifest {value}")
    _check_gap(case, path, name, data["gap"], body)
    for column, text in _COLUMN.findall(body):
        if column in case.manifest.columns and html.unescape(text) != case.manifest.columns[column]:
            case.report.fail(path, f"defines {column} as {html.unescape(text)!r}")
    _check_log(case, path, name, log, json.loads(data["log-lines"]))
    return None


def _check_gap(case: Case, path: Path, name: str, gap: str, body: str) -> None:
    """The level's median gap, which decides what is a stall."""
    figure = case.figures.get(f"{'.'.join(name.split('/')[1:4])}.gap.p50", {"value": None})
    if (float(gap) if gap else None) != figure["value"]:
        case.report.fail(path, f"takes {gap or 'none'} for the median gap of the level, it is {figure['value']}")
    for id, href, text in _NUMBER.findall(body):
        known = case.figures.get(html.unescape(id))
        if known is None or known is not figure or not shows(html.unescape(text), known["value"], known["unit"]):
            case.report.fail(path, f"shows {text!r} as {id}")
        case.follow(path, html.unescape(href))


def _check_log(case: Case, path: Path, name: str, log: str, claimed: dict[str, str]) -> None:
    """Lines claimed for a request are those of one task, and state the times that the record states."""
    if not claimed:
        return
    records = (case.folder / raw_file(name)).read_text("utf-8").split("\n")
    lines = gzip.decompress((case.folder / RAW / log).read_bytes()).decode("utf-8", "replace").split("\n")
    owners: dict[str, str] = {}
    for line, ranges in claimed.items():
        numbers = [k for part in ranges.split(",") for k in _numbers(part)]
        problem = _claim_problem(json.loads(records[int(line) - 1]), [lines[k - 1] for k in numbers])
        task = _TASK.search(lines[numbers[0] - 1])
        if problem or owners.setdefault(task[1] if task else "", line) != line:
            case.report.fail(
                path, f"gives lines {ranges} of the log to line {line}: {problem or 'so does another one'}"
            )
        case.report.count("requests found in logs")


def _numbers(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def _claim_problem(record: dict[str, Any], lines: list[str]) -> str | None:
    tasks = {found[1] if (found := _TASK.search(line)) else None for line in lines}
    if len(tasks) != 1 or None in tasks:
        return f"they name {len(tasks)} tasks"
    timings, text = record["server"]["timings"], "\n".join(lines)
    for part, pattern in _STATED.items():
        stated = re.search(pattern, text)
        if (
            stated is None
            or abs(float(stated[1]) - timings[f"{part}_ms"]) > 0.00501
            or int(stated[2]) != timings[f"{part}_n"]
        ):
            return f"their {part} time is not the record's"
    return None
