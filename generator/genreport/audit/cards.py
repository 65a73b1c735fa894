"""The cards under numbers: figures.js must say what the manifest says, and of every figure that the round's pages show."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from genreport.audit.case import Case
from genreport.audit.manifest import Manifest
from genreport.places import CARDS, derivation_group
from genreport.words import catalogue

MOST = 6  # places that a card shows
Plain = dict[str, Any]


def check_cards(case: Case) -> None:
    """Every entry of the script against its figure; runs after the pages, whose figures need one."""
    path = case.folder / CARDS
    found = read_cards(path.read_text("utf-8"))
    for problem in head_problems(found, case.manifest):
        case.report.fail(path, problem)
    for id, entry in found["figures"].items():
        with case.report.guard(path, f"the card of {id} cannot be checked"):
            problem = card_problem(id, entry, case.manifest)
            if problem:
                case.report.fail(path, problem)
        case.report.count("cards" if "formula" in entry else "figures named in cards")
    for folder, id in sorted(case.report.seen("distinct figures shown")):
        if folder == case.folder.name and "formula" not in found["figures"].get(id, {}):
            case.report.fail(path, f"has no card for {id}, which a page shows")


def read_cards(text: str) -> Plain:
    """What the script hands over: one call with one JSON object, and nothing else; its numbers opened."""
    whole = re.fullmatch(r"genreportFigures\((\{.*\})\)\n", text, re.S)
    if whole is None:
        raise ValueError("not one call with an object")
    plain = json.loads(whole[1])
    names = list(plain["figures"])
    return plain | {"figures": {id: _opened(entry, plain, names) for id, entry in plain["figures"].items()}}


def _opened(entry: Plain, plain: Plain, names: list[str]) -> Plain:
    """An entry with what its numbers stand for."""
    texts, files = plain["texts"], [name for name, *_ in plain["files"]]
    found = dict(entry)
    for key in ("unit", "formula", "reason"):
        found |= {key: texts[entry[key]]} if key in entry else {}
    if "group" in entry:
        found["group"] = plain["groups"][entry["group"]]
    if "through" in entry:
        found["through"] = names[entry["through"]]
    if "notes" in entry:
        found["notes"] = [texts[k] for k in entry["notes"]]
    if "rows" in entry:
        found["rows"] = [*entry["rows"][:2], texts[entry["rows"][2]]]
    if "places" in entry:
        found["places"] = [[files[k], *lines] for k, *lines in entry["places"]]
    if "inputs" in entry:
        found["inputs"] = {alias: _named(given, names) for alias, given in entry["inputs"].items()}
    return found


def _named(given: int | list[int], names: list[str]) -> str | list[Any]:
    return names[given] if isinstance(given, int) else [given[0], *(names[k] for k in given[1:])]


def head_problems(found: Plain, manifest: Manifest) -> Iterator[str]:
    """What all cards share: round, files, columns, and the words of the notes."""
    if found["round"] != manifest.folder.name:
        yield f"is of the round {found['round']!r}"
    for name, digest, starts in found["files"]:
        known = manifest.files.get(name, {})
        if (digest, starts) != (known.get("sha256"), known.get("pages", [1])):
            yield f"says another hash or other pages of {name} than the manifest"
    for name, text in found["columns"].items():
        if manifest.columns.get(name) != text:
            yield f"defines {name} as {text!r}, the manifest as {manifest.columns.get(name)!r}"
    for note, text in found["notes"].items():
        if text != catalogue()["note"].get(note):
            yield f"has other words for the note {note} than the catalogue"


def card_problem(id: str, entry: Plain, manifest: Manifest) -> str | None:
    """What is wrong with one entry; one without a formula is the brief of an input."""
    figure = manifest.figures.get(id)
    if figure is None:
        return f"tells of the unknown figure {id!r}"
    expected = brief(figure) | (details(figure, manifest) if "formula" in entry else {})
    wrong = sorted(key for key in expected.keys() | entry.keys() if expected.get(key) != entry.get(key))
    return (
        f"says {wrong[0]} = {entry.get(wrong[0])!r} of {id}, the manifest {expected.get(wrong[0])!r}" if wrong else None
    )


def brief(figure: Plain) -> Plain:
    """Value and unit, or how many points a curve has, and the page of the derivation."""
    value = figure["value"]
    given = {"points": len(value)} if isinstance(value, list) else {"value": value}
    return given | {"unit": figure["unit"], "group": derivation_group(figure["id"])}


def details(figure: Plain, manifest: Manifest) -> Plain:
    """The rest of a card, without what there is nothing to say of."""
    ground = _ground(figure, manifest)
    places = [place for source in ground.get("sources", []) for place in _places(source)]
    sources = figure.get("sources", [])
    rows = next((s for s in sources if s["type"] == "rows"), None)
    inputs = figure.get("inputs", {})
    said = {
        "n": figure.get("n"),
        "formula": figure["formula"],
        "inputs": dict([(alias, _input(given)) for alias, given in inputs.items()][:MOST]),
        "left": max(0, len(inputs) - MOST) or None,
        "foreign": next(([s["round"], s["figure"], s["seal"]] for s in sources if s["type"] == "foreign"), None),
        "rows": [rows["count"], len(rows["files"]), rows["where"]] if rows else None,
        "places": places[:MOST],
        "more": len(places[MOST:]) or None,
        "through": ground["id"] if ground and ground["id"] != figure["id"] else None,
        "notes": figure.get("notes"),
        "reason": figure.get("reason"),
    }
    return {name: value for name, value in said.items() if value not in (None, [], {})}


def _input(given: str | list[str]) -> str | list[Any]:
    return given if isinstance(given, str) else [len(given), *given[:MOST]]


def _ground(figure: Plain, manifest: Manifest) -> Plain:
    """The nearest figure that was read somewhere, by breadth; nothing for a count or what was given."""
    level, seen = [figure["id"]], {figure["id"]}
    while level:
        below: list[str] = []
        for id in level:
            found = manifest.figures[id]
            if any(_places(source) for source in found.get("sources", [])):
                return found
            ids = [
                i for given in found.get("inputs", {}).values() for i in ([given] if isinstance(given, str) else given)
            ]
            below += [i for i in dict.fromkeys(ids) if i not in seen]
            seen.update(ids)
        level = below
    return {}


def _places(source: Plain) -> list[list[Any]]:
    match source:
        case {"type": "rows", "picks": [_, *_] as picks}:
            return [list(pick) for pick in picks]
        case {"type": "rows", "files": files}:
            return [[file] for file in files]
        case {"type": "line" | "pointer", "file": file, "line": line}:
            return [[file, line]]
        case {"type": "lines", "file": file, "first": first, "last": last}:
            return [[file, first, last]]
        case {"type": "samples", "file": file, "lines": [first, last]}:
            return [[file, first, last]]
    return []
