"""Numbers that the plan gives, such as limits and prices: each with the line of the plan it stands on."""

from __future__ import annotations

import sys
from collections.abc import Container, Mapping
from functools import lru_cache
from typing import Any

import yaml

from genreport.figures import pointers
from genreport.figures.book import Book
from genreport.provenance import Pointer, Quantity
from genreport.rounds import PLAN
from genreport.words import say


def enter(book: Book, id: str, unit: str, pointer: str, *, divisor: int = 1) -> Quantity:
    """A number of the plan by RFC 6901 pointer, divided where the plan's unit is smaller than ours."""
    formula = "field" if divisor == 1 else f"field / {divisor}"
    value = pointers.at(book.round.plan, pointer)
    if not is_number(value):
        return book.missing(id, unit, formula, say("missing.plan_no_number"))
    return book.enter(
        id, value / divisor, unit, formula, Pointer(PLAN, pointer, line_of(book.round.text(PLAN), pointer))
    )


def entries(plan: Mapping[str, Any], key: str) -> list[tuple[int, dict[str, Any]]]:
    """The mappings in a list of the plan with their places; a round of others may have anything there."""
    found = plan.get(key)
    return [
        (place, entry)
        for place, entry in enumerate(found if isinstance(found, list) else ())
        if isinstance(entry, dict)
    ]


def texts(plan: Mapping[str, Any], key: str) -> list[str]:
    """The items of a list of the plan as text, whatever YAML read them as: a bare year is a number to it."""
    found = plan.get(key)
    return [str(item) for item in (found if isinstance(found, list) else ())]


def is_number(value: Any) -> bool:
    """Whether YAML read a finite number; true and false are none."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and abs(value) <= sys.float_info.max


def is_limit(slo: Mapping[str, Any], figures: Container[str]) -> bool:
    """Whether a service level of the plan is a limit on one of these figures."""
    below = slo.get("below_ms")
    return str(slo.get("figure")) in figures and is_number(below) and below > 0


def line_of(text: str, pointer: str) -> int:
    """The line (from 1) of the deepest part of a pointer that the text itself spells out."""
    node = _tree(text)
    for step in pointer.split("/")[1:]:
        inner = _inside(node, step)
        if inner is None:
            break
        node = inner
    # not the mark's own line: YAML also breaks lines where a listing does not
    return text.count("\n", 0, node.start_mark.index) + 1


@lru_cache(maxsize=2)
def _tree(text: str) -> yaml.Node:
    return yaml.compose(text, yaml.SafeLoader)


def _inside(node: yaml.Node, step: str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and step.isdecimal() and int(step) < len(node.value):
        return node.value[int(step)]
    return None
