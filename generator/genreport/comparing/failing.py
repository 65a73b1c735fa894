"""Requests that fail more often than before: counted, so that a rise needs no interval to be one."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.comparing.verdicts import Comparer
from genreport.figures import LevelView

RISE = "1 if failed * (old_failed + old_completed) > old_failed * (failed + completed) else 0"


def enter(comparer: Comparer, scope: str, old: LevelView, new: LevelView) -> bool:
    """Whether a larger share of a level's requests failed than before; `scope.sent`, `.old_sent` and `.fails_more` say it."""
    names = {name: f"{new.id}.{name}" for name in ("failed", "completed")}
    names |= {f"old_{name}": comparer.borrow(f"{old.id}.{name}") for name in ("failed", "completed")}
    if not comparer.value(names["failed"]):
        return False
    derive = comparer.book.derive
    for before in ("", "old_"):
        derive(f"{scope}.{before}sent", "count", "failed + completed", lambda failed, completed: failed + completed,
               carry=False, failed=names[f"{before}failed"], completed=names[f"{before}completed"])  # fmt: skip
    return bool(derive(f"{scope}.fails_more", "1", RISE, _rises, carry=False, **names).value)


def total(comparer: Comparer, levels: Sequence[tuple[str, str]]) -> None:
    """`against.….failing.failed` and `.sent`: of all requests of these levels (scope, id in the new round), how many fail."""
    for name, ids in (
        ("failed", [f"{id}.failed" for _, id in levels]),
        ("sent", [f"{scope}.sent" for scope, _ in levels]),
    ):
        comparer.book.derive(f"{comparer.scope}.failing.{name}", "count", "sum(levels)", lambda levels: levels.sum(),
                             carry=False, levels=ids)  # fmt: skip


def _rises(failed: float, completed: float, old_failed: float, old_completed: float) -> int:
    return int(failed * (old_failed + old_completed) > old_failed * (failed + completed))
