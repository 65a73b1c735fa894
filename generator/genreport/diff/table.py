"""The compact table: a block a figure, a line a level, what changed before what did not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from genreport.comparing import FAMILIES, Comparison
from genreport.diff import summary
from genreport.errors import printable
from genreport.reports.against import CHANGED, Row, ranked
from genreport.words import say

Cells = tuple[str, ...]
GAP = "  "
# columns that read as text; numbers stand to the right
LEFT = (0, 1, 7)


def lines(c: Comparison) -> Iterator[str]:
    """A sentence, what was changed around it, the figures, and what was not compared; nothing that steers a terminal."""
    return map(printable, _lines(c))


def _lines(c: Comparison) -> Iterator[str]:
    yield f"{c.name} → {c.new.round.name}"
    yield ""
    yield summary.sentence(c)
    yield from summary.failures(c)
    yield from summary.largest(c)
    yield from _environment(c)
    rows = [row for row in ranked(c) if row.figure.verdict != "outside"]
    kept = [row for row in rows if row.figure.verdict in CHANGED or _is_main(row)]
    yield from _aligned(c, kept)
    if kept and len(rows) > len(kept):
        yield ""
        yield say("diff.more", count=len(rows) - len(kept))
    yield from _spaced([*summary.apart(c), *summary.cautions(c)])
    yield from _spaced(summary.hypotheses(c))
    yield from _end(c)


def _spaced(found: Iterable[str]) -> Iterator[str]:
    """The lines with an empty one before them, if there are any."""
    for place, line in enumerate(found):
        yield from (["", line] if place == 0 else [line])


def _is_main(row: Row) -> bool:
    return row.figure.figure in FAMILIES["main"]


def _environment(c: Comparison) -> Iterator[str]:
    found = list(summary.differences(c))
    if found:
        yield ""
    names = [f"{d.scope} {d.topic} {d.name}".strip() for d in found]
    width = max(map(len, names), default=0)
    for name, d in zip(names, found, strict=True):
        means = f"{GAP}{found}" if (found := summary.means(d)) else ""
        yield f"{say('diff.differs')}{GAP}{name:<{width}}{GAP}{summary.turned(d)}{means}"


def _aligned(c: Comparison, rows: Sequence[Row]) -> Iterator[str]:
    """A block a figure; columns are as wide as their widest cell in any block."""
    if not rows:
        return
    blocks: dict[str, list[Cells]] = {}
    for row in _in_plan_order(c, rows):
        blocks.setdefault(row.figure.figure, []).append(_cells(c, row))
    head: Cells = (
        "", "", c.name, c.new.round.name, say("diff.change"), say("diff.interval_95"), say("diff.visible"), say("diff.verdict"),
    )  # fmt: skip
    every = [head, *(cells for found in blocks.values() for cells in found)]
    widths = [max(len(cells[k]) for cells in every) for k in range(len(head))]
    for figure, found in blocks.items():
        yield ""
        yield _line((say(f"diff.figure_{figure.replace('.', '_')}"), *head[1:]), widths)
        yield from (_line(cells, widths) for cells in found)


def _in_plan_order(c: Comparison, rows: Sequence[Row]) -> list[Row]:
    """Figures as they were compared, levels as the later round's plan has them."""
    order = {pair.id: place for place, pair in enumerate(c.levels)}
    figures = list(dict.fromkeys(figure.figure for figure in c.figures))
    return sorted(rows, key=lambda row: (figures.index(row.figure.figure), order[row.level.id]))


def _cells(c: Comparison, row: Row) -> Cells:
    figure = row.figure
    return (
        f"{row.test}/{row.engine}", row.name, summary.text(c, figure.then), summary.text(c, figure.now),
        summary.change(summary.value(c, f"{figure.scope}.ratio")), summary.interval(c, row), summary.visible(c, row),
        summary.verdict(figure.verdict),
    )  # fmt: skip


def _line(cells: Cells, widths: Sequence[int]) -> str:
    padded = (f"{cell:{'<' if k in LEFT else '>'}{widths[k]}}" for k, cell in enumerate(cells))
    return GAP.join(padded).rstrip()


def _end(c: Comparison) -> Iterator[str]:
    counted = ", ".join(f"{number:,} {summary.verdict(word)}" for word, number in summary.counts(c))
    if counted:
        yield ""
        size = summary.value(c, f"{c.scope}.family.size")
        corrected = say("diff.family", family=c.family.name, size=f"{size:,.0f}") if size else say("diff.no_family")
        yield f"{corrected}: {counted}"
        yield say("diff.means")
