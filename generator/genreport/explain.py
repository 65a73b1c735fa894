"""The derivation of one figure as text: value, formula, inputs, and the very lines they were read from."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from genreport.display import shown
from genreport.errors import GenreportError, printable
from genreport.places import BETWEEN_ROUNDS
from genreport.provenance import Foreign, Given, Ledger, Line, Lines, Pointer, Quantity, Rows, Samples, Source, Tally
from genreport.rounds import Round

WIDTH = 160


def explain(round: Round, ledger: Ledger, id: str) -> Iterator[str]:
    """Lines of a tree: the figure, then each input below it, down to files and lines."""
    if id not in ledger:
        close = difflib.get_close_matches(id, [q.id for q in ledger], 5, 0.5)
        cure = f"did you mean {', '.join(close)}?" if close else "`genreport explain ROUND` alone lists all figures"
        if id.partition(".")[0] in BETWEEN_ROUNDS and not any(q.id.startswith(BETWEEN_ROUNDS) for q in ledger):
            cure = "it is of a comparison: name the earlier round too, with --against"
        raise GenreportError(f"no figure {id!r}", where=round.name, cure=cure)
    yield from _tree(round, ledger, ledger[id], 0, set())


def _tree(round: Round, ledger: Ledger, q: Quantity, depth: int, seen: set[str]) -> Iterator[str]:
    pad = "  " * depth
    yield f"{pad}{q.id} = {_value(q)}"
    if q.id in seen:
        yield f"{pad}  (above)"
        return
    seen.add(q.id)
    yield f"{pad}  formula  {q.formula}" + (f"   n = {q.n:,}" if q.n is not None else "")
    if q.notes:
        yield f"{pad}  notes    {', '.join(q.notes)}"
    for source in q.sources:
        yield from (f"{pad}  {line}" for line in _source(round, source))
    for alias, given in q.inputs.items():
        yield f"{pad}  {alias}:"
        for each in (given,) if isinstance(given, str) else given:
            yield from _tree(round, ledger, ledger[each], depth + 2, seen)


def _value(q: Quantity) -> str:
    if q.missing:
        return f"n/a ({q.reason})"
    if isinstance(q.value, tuple):
        return f"a curve of {len(q.value)} values, {q.value[0]:.6g} … {q.value[-1]:.6g} {q.unit}"
    return f"{q.value!r} {q.unit}  ({shown(q.value, q.unit)})"


def _source(round: Round, source: Source) -> Iterator[str]:
    match source:
        case Rows(files, where, count, picks):
            yield f"rows     {count:,} of {', '.join(files)}"
            yield f"         where {where}"
            for file, line in picks:
                yield from _quoted(round, file, line)
        case Line(file, line, pattern) | Lines(file, line, _, pattern, _):
            yield f"pattern  {pattern}"
            yield from _quoted(round, file, line)
        case Pointer(file, pointer, line):
            yield f"pointer  {pointer}"
            yield from _quoted(round, file, line)
        case Samples(file, series, (first, last)):
            yield f"samples  {series}, lines {first}–{last} of {file}"
        case Tally(what):
            yield f"count    of {what} in the manifest"
        case Given(option, text):
            yield f"given    when the site was built: {option} {text}"
        case Foreign(other, figure):
            yield f"from     {other}: `genreport explain {other} {figure}` goes on there"


def _quoted(round: Round, file: str, line: int) -> Iterator[str]:
    text = printable(round.text(file).split("\n")[line - 1])
    yield f"at       {file}:{line}"
    yield f"         {text if len(text) <= WIDTH else text[: WIDTH - 1] + '…'}"
