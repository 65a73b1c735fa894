"""Numbers that the plan gives, such as limits and prices: each with the line of the plan it stands on."""

from __future__ import annotations

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


def is_number(value: Any) -> bool:
    """Whether YAML read a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
