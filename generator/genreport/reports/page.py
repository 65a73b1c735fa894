"""What every page of a round is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Page:
    """One page: its place below the round's folder, its template, and what the template may say."""

    path: str
    template: str
    context: dict[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return self.path.removesuffix("index.md").strip("/")


class Drawn(dict):
    """Charts by name; one that has nothing to draw is `None`, so that a template can ask for any."""

    def __missing__(self, name: str) -> None:
        return None
