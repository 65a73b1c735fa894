"""Pages outside the theme's chrome: one small frame, filled with markup that is already escaped."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup


@cache
def _environment(templates: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def page(templates: Path, template: str, path: str, *, body: str, **context: Any) -> str:
    """One page at `path` below the site's root; `body` is markup, everything in `context` is text."""
    root = "../" * path.count("/")
    return _environment(templates).get_template(template).render(root=root, body=Markup(body), **context)
