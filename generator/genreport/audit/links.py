"""Links of a built site: each leads to a file and, where it names one, to an anchor in it."""

from __future__ import annotations

import html
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Links:
    """Resolves links of a built site, each file read once."""

    def __init__(self, site: Path) -> None:
        self.site = site.resolve()
        self.problem = cache(self._problem)
        self.anchors = cache(self._anchors)

    def _problem(self, page: Path, target: str) -> str | None:
        """What is wrong with a link on a page, or `None`."""
        try:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto"):
                return None
            if parts.scheme:
                return f"a link with the scheme {parts.scheme!r}"
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
            path = path / "index.html" if path.is_dir() else path
            if not path.is_relative_to(self.site) or not path.is_file():
                return f"a link to nothing: {target}"
            if parts.fragment and not self._holds(path, unquote(parts.fragment)):
                return f"a link to no anchor: {target}"
        except (ValueError, OSError) as error:
            return f"a link that cannot be followed: {target[:100]!r} ({error})"
        return None

    def _holds(self, path: Path, anchor: str) -> bool:
        """Whether an anchor is there; a request's page is made from the line that it names."""
        line = anchor.removeprefix("request-")
        return line in self.anchors(path) and (line == anchor or "request" in self.anchors(path))

    @staticmethod
    def _anchors(path: Path) -> frozenset[str]:
        text = path.read_text("utf-8", "replace")
        return frozenset(html.unescape(found) for found in re.findall(r'(?<=\s)id="?([^"\s>]+)', text))
