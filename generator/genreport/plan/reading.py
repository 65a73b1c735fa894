"""From a YAML file to a plan: syntax, twice-given keys and endless aliases here, everything else in `mistakes`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from genreport.errors import PlanError
from genreport.plan.mistakes import Loc, absences, hidden_ids, relations, structure, unset_variables
from genreport.plan.model import Plan
from genreport.plan.parts import expand

MAX_BYTES, MAX_NODES = 1_000_000, 50_000


def read_plan(path: str | Path, env: Mapping[str, str] | None = None, *, on_this_machine: bool = True) -> Plan:
    """A plan checked in full; `on_this_machine=False` skips variables, programs and files, which other machines lack.

    Raises PlanError with every mistake found, each with its line.
    """
    text = _read(path)
    root, raw = _parsed(path, text)
    found = [*structure(raw), *relations(raw)]
    if on_this_machine:
        found += _here(raw, os.environ if env is None else env)
    mistakes = {(_line(root, loc), f"{_place(loc)}: {message}" if loc else message) for loc, message in found}
    if mistakes:
        raise PlanError(str(path), list(mistakes))
    return Plan.model_validate(raw).with_text(text)


def _here(raw: dict[str, Any], env: Mapping[str, str]) -> Iterator[tuple[Loc, str]]:
    yield from unset_variables(raw, env)
    yield from absences(raw, env)
    yield from structure(expanded := expand(raw, env))
    yield from hidden_ids(expanded)


def _read(path: str | Path) -> str:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PlanError(str(path), [(1, f"can not be read: {error.strerror}")]) from None
    if len(data) > MAX_BYTES:
        raise PlanError(str(path), [(1, f"{len(data)} bytes are no plan; at most {MAX_BYTES}")])
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise PlanError(str(path), [(1 + data[: error.start].count(b"\n"), "is not UTF-8 text")]) from None


def _parsed(path: str | Path, text: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    try:
        root = yaml.compose(text, yaml.SafeLoader)
        if not isinstance(root, yaml.MappingNode):
            raise PlanError(str(path), [(1, "a plan is a mapping that begins with `plan: 1`")])
        if twice := list(_twice(root)):
            raise PlanError(str(path), twice)
        return root, yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise PlanError(str(path), [(mark.line + 1 if mark else 1, f"not YAML: {error.problem}")]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PlanError(str(path), [(1, f"not YAML: {' '.join(str(error).split())}")]) from None


def _twice(root: yaml.Node) -> Iterator[tuple[int, str]]:
    """Keys given twice, and a tree that aliases make endless or huge."""
    queue, seen = [root], 0
    while queue:
        node, seen = queue.pop(), seen + 1
        if seen > MAX_NODES:
            yield node.start_mark.line + 1, "aliases make this plan endless or far too large"
            return
        if isinstance(node, yaml.MappingNode):
            yield from _twice_in(node)
            queue += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            queue += node.value


def _twice_in(node: yaml.MappingNode) -> Iterator[tuple[int, str]]:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        name, line = str(key.value), key.start_mark.line + 1
        if name in lines:
            yield line, f"key {name!r} was already given in line {lines[name]}"
        lines.setdefault(name, line)


def _line(root: yaml.Node, loc: Loc) -> int:
    """The line of the deepest part of a location that the file has."""
    node, line = root, root.start_mark.line
    for part in loc:
        if isinstance(node, yaml.MappingNode):
            pair = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
    return line + 1


def _place(loc: Loc) -> str:
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")
