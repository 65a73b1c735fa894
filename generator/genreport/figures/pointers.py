"""Which line of a JSON file a value stands on."""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\n')


def lines_of(text: str) -> dict[str, int]:
    """RFC 6901 pointer -> line (from 1) on which its value begins, for every value of a JSON text."""
    found: dict[str, int] = {}
    path: list[Any] = []  # per open container: the key or index of the value that comes next
    line, key_follows = 1, False
    for token in _TOKEN.findall(text):
        if token == "\n":
            line += 1
        elif token == ",":
            key_follows = _next(path)
        elif token == ":":
            key_follows = False
        elif token in "}]":
            path.pop()
            key_follows = False
        elif key_follows:
            path[-1] = json.loads(token)
        else:
            found[_pointer(path)] = line
            if token in "{[":
                path.append("" if token == "{" else 0)
                key_follows = token == "{"
    return found


def _next(path: list[Any]) -> bool:
    """Moves to the next element of a list; in an object a key follows."""
    if isinstance(path[-1], int):
        path[-1] += 1
        return False
    return True


def _pointer(path: list[Any]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def at(tree: Any, pointer: str) -> Any:
    """The value at a pointer, `None` where there is none."""
    for step in pointer.split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            tree = tree[int(step)] if isinstance(tree, list) else tree[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return tree
