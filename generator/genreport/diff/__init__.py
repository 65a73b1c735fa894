"""Two rounds compared, as text: a compact table for a terminal, Markdown for a pull request, JSON and CSV for programs.

`table`, `markdown` and `plain` write one format each; `gate` says what stops a pipeline; `summary` is the one sentence that
all of them open with.
"""

from __future__ import annotations

from collections.abc import Iterator

from genreport.comparing import Comparison
from genreport.diff import markdown, plain, table
from genreport.diff.gate import regressions

__all__ = ["FORMATS", "lines", "regressions"]

FORMATS = {"text": table.lines, "md": markdown.lines, "json": plain.json_lines, "csv": plain.csv_lines}


def lines(c: Comparison, format: str) -> Iterator[str]:
    """The comparison in one of `FORMATS`, line by line."""
    return FORMATS[format](c)
