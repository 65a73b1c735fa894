"""What to mind: pitfalls and where this round met them, signals that it is time to change, checks, and open questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from genreport.figures import Figures, Flag, TestView
from genreport.figures.cliff import engine_scope
from genreport.reports.choices import Chooser

# pitfall -> kinds of flags that show it
FLAGGED = {
    "prefix_cache": ("prefix_cache",),
    "short": ("short",),
    "few": ("few_requests",),
    "late": ("client_lag", "client_limit", "sent_late", "slept"),
    "load": ("in_flight",),
    "drop": ("drop",),
    "failed": ("failed",),
    "counts": ("check",),
}
# pitfall -> what a start-up log says where it is met
LOGGED = {
    "context_cut": r"n_ctx_seq \(\d+\) < n_ctx_train",
    "eager": r"(?i)enforce.eager.?[=:]\s*true|cudagraph is disabled|eager mode",
    "attention": r"(?i)(?:cannot|can't|unable to) use .{0,40}attention|falling back to .{0,40}attention",
}
# what others report and no round of this tool can show
REPORTED = ("shm", "prefill_budget", "offline", "characters")
# below this elasticity more load buys no throughput worth the name
FLAT = 0.1
IDLE = 0.5
QUEUED = 0.5
SOAK_S = 3600.0


@dataclass(frozen=True)
class Pitfall:
    """A way to be misled, and where this round met it: flags, or (engine, link to its log, place there as text)."""

    name: str
    flags: tuple[Flag, ...] = ()
    lines: tuple[tuple[str, str, str], ...] = ()

    @property
    def met(self) -> bool:
        return bool(self.flags or self.lines)


def pitfalls(figures: Figures) -> list[Pitfall]:
    """Every pitfall, those that this round met first."""
    found = [Pitfall(name, flags=tuple(f for f in figures.flags if f.kind in kinds)) for name, kinds in FLAGGED.items()]
    found += [Pitfall(name, lines=tuple(_logged(figures, pattern))) for name, pattern in LOGGED.items()]
    found += [Pitfall(name) for name in REPORTED]
    return sorted(found, key=lambda pitfall: not pitfall.met)


def _logged(figures: Figures, pattern: str) -> Iterator[tuple[str, str, str]]:
    """The first line of each engine's start-up log that matches, as a place in its listing."""
    search = re.compile(pattern).search
    for start in (start for start in figures.starts if start.id == start.engine):
        file = figures.round.start_log_file(start.launch)
        lines = figures.round.text(file).split("\n") if file else ()
        line = next((k for k, text in enumerate(lines, 1) if search(text[:4000])), None)
        if line:
            yield start.engine, figures.listings.href(file, line), f"{file}:{line}"


@dataclass(frozen=True)
class Signals:
    """Whether one engine shows the three signs of the wrong tool at its largest load; `None` where nobody knows."""

    engine: str
    last: str  # scope of that level
    flat: bool | None
    idle: bool | None
    queued: bool | None


def signals(test: TestView, chooser: Chooser) -> list[Signals]:
    """The three signs of each engine of a sweep."""
    return [_signals(engine, test.levels_of(engine)[-1].id, chooser) for engine in test.engines]


def _signals(engine: str, last: str, chooser: Chooser) -> Signals:
    elasticity, mbu, mfu, waiting = (
        chooser.value(f"{last}.{name}") for name in ("elasticity", "mbu", "mfu", "waiting.mean")
    )
    return Signals(
        engine,
        last,
        flat=None if elasticity is None else elasticity < FLAT,
        idle=None if mbu is None or mfu is None else max(mbu, mfu) < IDLE,
        queued=None if waiting is None else waiting >= QUEUED,
    )


@dataclass(frozen=True)
class Check:
    """One step of the switching checklist, ticked where this round measured it."""

    name: str
    ticked: bool


def checks(figures: Figures, test: TestView, chooser: Chooser) -> list[Check]:
    """The steps before a switch; what a round of this tool cannot do stays open."""
    sound = {engine: [_sound(chooser, level.id) for level in test.levels_of(engine)] for engine in test.engines}
    longest = chooser.value("test.longest_s") or 0
    weights = (
        figures.ledger[f"{engine_scope(figures.starts, test.levels_of(e)[0])}.tensor_bytes"] for e in test.engines
    )
    done = {
        "formats": not any(q.missing for q in weights),
        "sampling": len(samplings(figures, test)) == 1,
        "single": all(test.levels_of(e)[0].concurrency == 1 and all_of[0] for e, all_of in sound.items()),
        "concurrency": all(len(all_of) > 1 and all(all_of) for all_of in sound.values()),
        "dropped": chooser.value("test.failed") == 0 and bool(chooser.value("test.completed")),
        "soak": longest >= SOAK_S,
        "parameters": False,
        "memory": False,
        "real_load": False,
        "shadow": False,
        "way_back": False,
    }
    return [Check(name, ticked) for name, ticked in done.items()]


def _sound(chooser: Chooser, level: str) -> bool:
    return bool(chooser.value(f"{level}.completed")) and chooser.value(f"{level}.failed") == 0


def samplings(figures: Figures, test: TestView) -> list[tuple[str, tuple[str, ...]]]:
    """The sampling parameters that requests carried, each with the engines that got them."""
    found: dict[str, list[str]] = {}
    for engine in test.engines:
        given = test.levels_of(engine)[0].repeats[0].facts.sampling
        found.setdefault(", ".join(f"{key}: {given[key]}" for key in sorted(given)), []).append(engine)
    return [(words, tuple(engines)) for words, engines in found.items()]


def gaps(figures: Figures) -> list[str]:
    """Knobs that no launch of this round turns, by name; answer quality and arrival rates are always among them."""
    facts = [start.facts for start in figures.starts]
    words = [word for launch in facts for word in (launch.command or ())]
    turned = {
        "kv_quantisation": any(launch.kv_bytes_per_element < 2 for launch in facts),
        "equal_pools": _equal(figures, "pool_tokens"),
        "equal_slots": len({engine.variant_of or engine.engine for engine in facts}) < len({e.engine for e in facts}),
        "gpus": len(figures.round.machine.gpus) > 1,
        "speculative": _any(words, r"^--(speculative|spec-|draft|model-draft)|^-md$"),
        "chunk": _any(words, r"^--(max-num-batched-tokens|ubatch-size|batch-size)|^-u?b$"),
        "models": len({launch.model for launch in facts}) > 1,
        "quality": False,
        "arrivals": False,
    }
    return [name for name, done in turned.items() if not done]


def _equal(figures: Figures, name: str) -> bool:
    found = [figures.ledger[f"engine.{engine}.{name}"].value for engine in figures.engines]
    return len(found) > 1 and None not in found and len(set(found)) == 1


def _any(words: Iterable[str], pattern: str) -> bool:
    return any(re.search(pattern, word) for word in words)
