"""What an audit counted, and what it found wrong."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

# what must have been found at least once for an audit to mean anything
NEEDED = (
    "rounds", "rounds listed", "files", "figures recomputed", "derivations", "numbers in pages",
    "distinct figures shown", "distinct figures linked", "chart values", "cards", "links",
)  # fmt: skip


@dataclass
class Report:
    """Counts by what was counted, and every failure as one line."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _known: dict[str, set[Hashable]] = field(default_factory=dict, repr=False)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def count_once(self, what: str, which: Hashable) -> None:
        """Counts it unless it was counted before."""
        known = self._known.setdefault(what, set())
        if which not in known:
            known.add(which)
            self.count(what)

    def seen(self, what: str) -> set[Hashable]:
        """Which were counted once under that heading."""
        return set(self._known.get(what, ()))

    def fail(self, where: object, what: str) -> None:
        self.failures.append(f"{where}: {' '.join(what.split())}")

    def add(self, other: Report) -> None:
        self.failures += other.failures
        for what, number in other.counts.items():
            self.count(what, number)

    @contextmanager
    def guard(self, where: object, what: str = "cannot be checked") -> Iterator[None]:
        """Whatever a damaged site provokes inside becomes a failure of that place, and the audit goes on."""
        try:
            yield
        except Exception as error:
            self.fail(where, f"{what}: {type(error).__name__}: {str(error)[:300]}")

    @property
    def ok(self) -> bool:
        return not self.failures
