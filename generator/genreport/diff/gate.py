"""What stops a pipeline: a regression in the chosen family, or a level on which more requests fail than before."""

from __future__ import annotations

from genreport.comparing import Comparison
from genreport.diff.summary import change, fails, figure, level, value
from genreport.errors import RoundError
from genreport.reports.against import ranked
from genreport.words import say


def regressions(c: Comparison) -> list[str]:
    """What became worse, a line each, the worst first.

    RoundError where no figure of the family was judged: a gate that cannot tell does not open.
    """
    broken = [f"{p.new.test}/{p.new.engine}/{p.new.name}: {say('diff.broken')}" for p in c.levels if _broken(c, p)]
    broken += [fails(c, pair) for pair in c.failing if not _broken(c, pair)]
    rows = [row for row in ranked(c) if row.figure.verdict == "regressed"]
    found = [f"{level(row)}: {figure(row)} {change(value(c, f'{row.figure.scope}.ratio'))}" for row in rows]
    if not broken and not c.same and not any(compared.in_family for compared in c.figures):
        cure = "compare rounds of one machine, with three repeats or more, that share levels"
        raise RoundError("no figure could be judged, so nothing can be passed", where=c.new.round.name, cure=cure)
    return broken + found


def _broken(c: Comparison, pair) -> bool:
    return pair.state == "failed" and value(c, f"{pair.new.id}.completed") == 0
