"""The catalogue: what a reader sees that no template holds, under keys, so that a second language is a second file."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path


def templates_folder() -> Path:
    """The packaged templates, else the checkout's."""
    bundled = Path(__file__).parent / "_bundle" / "templates"
    return bundled if bundled.is_dir() else Path(__file__).parents[2] / "templates"


def say(key: str, **given: object) -> str:
    """The text under `section.name` in templates/words.toml, its {named} places filled in."""
    section, name = key.split(".", 1)
    return catalogue()[section][name].format(**given)


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """All texts by section and name."""
    return tomllib.loads((templates_folder() / "words.toml").read_text("utf-8"))
