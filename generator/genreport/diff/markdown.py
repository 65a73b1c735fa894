"""A comment for a pull request: the sentence, the counts, what changed, and the rest folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from genreport.comparing import FAMILIES, Comparison
from genreport.diff import summary
from genreport.errors import printable
from genreport.reports.against import CHANGED, Row, ranked
from genreport.words import say

# a comment has room for so many lines of a table, and so many differences; how many more there are is said
MOST, DIFFERENCES = 60, 20
_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~])")


def lines(c: Comparison) -> Iterator[str]:
    """The whole comment."""
    rows = [row for row in ranked(c) if row.figure.verdict != "outside"]
    changed = [row for row in rows if row.figure.verdict in CHANGED]
    others = [row for row in rows if row.figure.verdict not in CHANGED and row.figure.figure in FAMILIES["main"]]
    yield f"### {say('diff.title', new=escaped(c.new.round.name), old=escaped(c.name))}"
    yield ""
    yield f"**{escaped(summary.sentence(c))}**"
    yield from _listed([*summary.failures(c), *summary.largest(c)])
    yield from _listed(summary.hypotheses(c))
    yield from _counts(c)
    yield from _environment(c)
    yield from _table(c, changed, say("diff.changed"))
    yield from _table(c, others, say("diff.others"), folded=True)
    if left := len(rows) - len(changed) - len(others):
        yield from ("", say("diff.more", count=f"{left:,}"))
    yield from _listed([*summary.apart(c), *summary.cautions(c)])


def _listed(found: Iterable[str]) -> Iterator[str]:
    """A list with an empty line before it, if it has entries."""
    for place, line in enumerate(found):
        yield from (["", f"- {escaped(line)}"] if place == 0 else [f"- {escaped(line)}"])


def escaped(text: str) -> str:
    """Text of a round as text: no markup, no mention of anyone, no second line."""
    return _MARKUP.sub(r"\\\1", printable(text).replace("&", "&amp;")).replace("@", "@\u200b")


def _counts(c: Comparison) -> Iterator[str]:
    found = summary.counts(c)
    if found:
        yield ""
        yield ", ".join(f"{number:,} {summary.verdict(word)}" for word, number in found) + " " + _family(c)


def _family(c: Comparison) -> str:
    return say("diff.family_note", family=escaped(c.family.name))


def _environment(c: Comparison) -> Iterator[str]:
    found = list(summary.differences(c))
    if found:
        yield ""
    for d in found[:DIFFERENCES]:
        means = f" – **{said}**" if (said := summary.means(d)) else ""
        yield f"- {escaped(f'{d.scope} {d.topic} {d.name}'.strip())}: {escaped(summary.turned(d))}{means}"
    if len(found) > DIFFERENCES:
        yield f"- {say('diff.more_differences', count=f'{len(found) - DIFFERENCES:,}')}"


def _table(c: Comparison, rows: Sequence[Row], title: str, *, folded: bool = False) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield f"<details><summary>{title}</summary>" if folded else f"**{title}**"
    yield ""
    names = (say("diff.level"), say("diff.figure"), escaped(c.name), escaped(c.new.round.name), say("diff.change"),
             say("diff.interval_95"), say("diff.visible"), say("diff.verdict"))  # fmt: skip
    yield f"| {' | '.join(names)} |"
    yield "|---|---|--:|--:|--:|--:|--:|---|"
    for row in rows[:MOST]:
        yield f"| {' | '.join(_cells(c, row))} |"
    if len(rows) > MOST:
        yield ""
        yield say("diff.more_rows", count=f"{len(rows) - MOST:,}")
    if folded:
        yield ""
        yield "</details>"


def _cells(c: Comparison, row: Row) -> Iterator[str]:
    figure = row.figure
    yield escaped(summary.level(row))
    yield summary.figure(row)
    yield from (summary.text(c, id) for id in (figure.then, figure.now))
    yield summary.change(summary.value(c, f"{figure.scope}.ratio"))
    yield summary.interval(c, row)
    yield summary.visible(c, row)
    word = summary.verdict(figure.verdict)
    yield f"**{word}**" if figure.verdict in CHANGED else word
