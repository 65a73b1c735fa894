"""What to mind: pitfalls and where this round met them, signals that it is time to change, checks, and open questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from genreport.figures import Figures, Flag, LevelView, TestView
from genreport.figures.layout import engine_scope
from genreport.reports.choices import Chooser
from genreport.reports.page import placed

# pitfall -> kinds of flags that show it
FLAGGED = {
    "prefix_cache": ("prefix_cache",),
    "short": ("short",),
    "few": ("few_requests", "in_flight"),  # in a closed loop only its ends leave places empty
    "late": ("client_lag", "client_limit", "sent_late", "slept"),
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
# kinds of tests whose levels rise in load
RISING = ("concurrency", "open", "conversation")


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
    """One step before a switch: ticked where this round took it, on which engines, and the pages that show it."""

    name: str
    ticked: bool
    engines: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def checks(figures: Figures, test: TestView, chooser: Chooser) -> list[Check]:
    """The steps before a switch that a round can take, each ticked where it was taken on every engine of this sweep."""
    weights = (
        figures.ledger[f"{engine_scope(figures.starts, test.levels_of(e)[0])}.tensor_bytes"] for e in test.engines
    )
    late = any(flag.kind in FLAGGED["late"] for flag in figures.flags)
    dropped = chooser.value("test.failed") != 0 or not chooser.value("test.completed")
    levels = _levels(figures)
    long = [level for level in levels if _long(level)]
    return [
        Check("formats", not any(q.missing for q in weights)),
        Check("sampling", len(samplings(figures, test)) == 1),
        _taken(figures, test, "single", (level for level in levels if level.concurrency == 1)),
        _taken(figures, test, "concurrency", _rising(figures, chooser)),
        Check("dropped", not dropped),
        Check("client", not late, places=("concurrency",)),
        *(_taken(figures, test, name, filter(takes, levels)) for name, takes in USED.items()),
        _taken(figures, test, "soak", long),
        _taken(figures, test, "memory", (level for level in long if _watched(chooser, level))),
    ]


def _levels(figures: Figures) -> list[LevelView]:
    """Every level of the round at which a request completed."""
    found = (level for test in figures.tests for engine in test.engines for level in test.levels_of(engine))
    return [level for level in found if figures.ledger[f"{level.id}.completed"].value]


def _taken(figures: Figures, test: TestView, name: str, levels: Iterable[LevelView]) -> Check:
    """A step that these levels take; a test without a page of its own is shown nowhere."""
    found, places = list(levels), placed(figures)
    engines = tuple(engine for engine in test.engines if any(level.engine == engine for level in found))
    shown = dict.fromkeys(places[level.test] for level in found if level.test in places)
    return Check(name, engines == test.engines, engines, tuple(shown))


def _rising(figures: Figures, chooser: Chooser) -> Iterator[LevelView]:
    """The levels of engines that bore several loads of one test, and failed no request of them."""
    for test in figures.tests:
        for levels in (test.levels_of(engine) for engine in test.engines if test.kind in RISING):
            if len(levels) > 1 and all(_sound(chooser, level.id) for level in levels):
                yield from levels


def _long(level: LevelView) -> bool:
    """Whether a repeat was planned to last as long as a soak should."""
    return any((repeat.facts.duration_s or 0) >= SOAK_S for repeat in level.repeats)


def _watched(chooser: Chooser, level: LevelView) -> bool:
    return any(chooser.value(id) is not None for id in level.ids("memory_growth"))


def _sound(chooser: Chooser, level: str) -> bool:
    return bool(chooser.value(f"{level}.completed")) and chooser.value(f"{level}.failed") == 0


def _bunched(level: LevelView) -> bool:
    """Whether requests came closer together at times than chance brings them."""
    arrivals = level.repeats[0].facts.arrivals
    gamma = arrivals and arrivals.process == "gamma" and (arrivals.burstiness or 1) < 1
    return bool(gamma or (arrivals and arrivals.process in ("ramp", "burst", "trace")))


# what users do and a plain closed loop does not -> whether a level does it
USED: dict[str, Callable[[LevelView], bool]] = {
    "arrivals": lambda level: level.repeats[0].facts.arrivals is not None,
    "bursts": _bunched,
    "lengths": lambda level: level.repeats[0].facts.mixed,
    "prompts": lambda level: level.repeats[0].facts.prompts is not None,
    "conversations": lambda level: level.repeats[0].facts.conversations is not None,
}


def samplings(figures: Figures, test: TestView) -> list[tuple[str, tuple[str, ...]]]:
    """The sampling parameters that requests carried, each with the engines that got them."""
    found: dict[str, list[str]] = {}
    for engine in test.engines:
        given = test.levels_of(engine)[0].repeats[0].facts.sampling
        found.setdefault(", ".join(f"{key}: {given[key]}" for key in sorted(given)), []).append(engine)
    return [(words, tuple(engines)) for words, engines in found.items()]


def gaps(figures: Figures) -> list[str]:
    """Knobs that no launch and no load of this round turns, by name; the quality of answers is always among them."""
    facts = [start.facts for start in figures.starts]
    words = [word for launch in facts for word in (launch.command or ())]
    turned = {
        "kv_quantisation": any(launch.kv_bytes_per_element < 2 for launch in facts),
        "equal_pools": _equal(figures, "pool_tokens"),
        "equal_slots": _slots_differ(figures),
        "gpus": len(figures.round.machine.gpus) > 1,
        "speculative": _any(words, r"^--(speculative|spec-|draft|model-draft)|^-md$"),
        "chunk": _any(words, r"^--(max-num-batched-tokens|ubatch-size|batch-size)|^-u?b$"),
        "models": _models_differ(figures),
        "quality": False,
        "arrivals": any(filter(USED["arrivals"], _levels(figures))),
    }
    return [name for name, done in turned.items() if not done]


def _equal(figures: Figures, name: str) -> bool:
    found = [figures.ledger[f"engine.{engine}.{name}"].value for engine in figures.engines]
    return len(found) > 1 and None not in found and len(set(found)) == 1


def _slots_differ(figures: Figures) -> bool:
    """Whether an engine and a variant of it, or two of its starts, have another number of slots or sequences."""
    found: dict[str, set[float]] = {}
    for start in figures.starts:
        slots = figures.ledger[f"engine.{start.id}.slots"].value
        if slots is not None:
            found.setdefault(start.facts.variant_of or start.engine, set()).add(slots)
    return any(len(counts) > 1 for counts in found.values())


def _models_differ(figures: Figures) -> bool:
    """Engines call one model by different names, so its architecture decides where it is known."""
    facts, models = [start.facts for start in figures.starts], figures.round.models
    known = [models[launch.model_facts].architecture for launch in facts if launch.model_facts in models]
    if len(known) == len(facts):
        return len({(one.name, one.layers, one.hidden, one.vocabulary) for one in known}) > 1
    return len({launch.model for launch in facts}) > 1


def _any(words: Iterable[str], pattern: str) -> bool:
    return any(re.search(pattern, word) for word in words)
