"""One row a property of the comparison table: each engine's figure, who wins it, and the report it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from genreport.figures import Figures, TestView
from genreport.figures.choosing import common
from genreport.figures.cliff import by_length, over
from genreport.figures.crossing import RATIOS
from genreport.figures.layout import engine_scope
from genreport.records import LaunchFacts
from genreport.reports.choices import Chooser

# property -> figure of the first or last common level ("first:", "last:"), of the sweep or of the engine; which is better;
# report that tells of it
ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("step", "first:itl.p50", "min", "head-to-head"),
    ("single", "first:output_throughput", "max", "concurrency"),
    ("ttft_first", "first:ttft.p50", "min", "ttft"),
    ("ttft_last", "last:ttft.p50", "min", "ttft"),
    ("wait_last", "last:ttft.p99", "min", "concurrency"),
    ("peak", "sweep:peak_throughput", "max", "concurrency"),
    ("efficiency", "last:scaling_efficiency", "max", "concurrency"),
    ("marginal", "sweep:marginal_cost_s", "min", "head-to-head"),
    ("attainment", "last:attainment", "max", "head-to-head"),
    ("weights", "engine:tensor_bytes", "min", "head-to-head"),
    ("kv", "engine:kv_bytes_per_token", "min", "kv"),
    ("pool", "engine:pool_tokens", "max", "kv"),
    ("residents", "engine:residents", "max", "kv"),
    ("allocation", "", "", "kv"),
    ("capacity", "engine:announced_concurrency", "", "kv"),
    ("overload", "cliff:", "", "cliff"),
    ("mixed", "last:mixed_share", "", "ttft"),
    ("shown", "sweep:shown", "max", "ttft"),
    ("start", "engine:start_s", "min", ""),
    ("answers", "pair:same_answers", "", "head-to-head"),
)

# rows without noise: counted, or read from files and settings
EXACT = {"weights", "kv", "pool", "residents", "shown"}
POOLED = {"pool", "residents"}
# options and variables of a launch that set the size of its KV pool
SETS_POOL = {
    "--num-gpu-blocks-override", "--gpu-memory-utilization", "--kv-cache-memory-bytes", "VLLM_CPU_KVCACHE_SPACE",
    "-c", "--ctx-size", "LLAMA_ARG_CTX_SIZE", "--mem-fraction-static", "--max-total-tokens", "--max-batch-total-tokens",
    "--cuda-memory-fraction", "OLLAMA_CONTEXT_LENGTH",
}  # fmt: skip
# pools of no more than this ratio of bytes got the same memory
SAME_MEMORY = 1.01


@dataclass(frozen=True)
class Property:
    """A row: figures by engine (an engine without one is left out), who wins, flagged engines, the report's slug."""

    name: str
    ids: dict[str, str]
    winner: str | None
    flagged: frozenset[str]
    report: str


@dataclass(frozen=True)
class Pools:
    """What set the KV pool of each engine at its start, as typed; `fair`: their sizes tell of the engines, not of settings."""

    options: dict[str, tuple[str, ...]]
    fair: bool


def pools(figures: Figures, test: TestView) -> Pools:
    """Pools are fair to compare where all got the same memory, or the same settings; those of unknown launches are not."""
    starts = {f"engine.{start.id}": start.facts for start in figures.starts}
    scopes = {engine: engine_scope(figures.starts, test.levels_of(engine)[0]) for engine in test.engines}
    options = {e: tuple(_sets_pool(starts[scope])) if scope in starts else () for e, scope in scopes.items()}
    known = all(scope in starts and starts[scope].command for scope in scopes.values())
    sizes = [figures.ledger[f"{scope}.pool_bytes"].value for scope in scopes.values()]
    same = None not in sizes and max(sizes) <= SAME_MEMORY * min(sizes)
    return Pools(options, same or (known and len(set(options.values())) == 1))


def _sets_pool(facts: LaunchFacts) -> Iterator[str]:
    yield from (f"{name}={value}" for name, value in sorted(facts.env.items()) if name in SETS_POOL)
    words = facts.command or []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        name, joined, _ = word.partition("=")
        if name in SETS_POOL:
            yield word if joined else f"{word} {after}"


def properties(figures: Figures, test: TestView, chooser: Chooser) -> list[Property]:
    """The table's rows; a row that no engine has a figure for is left out, unless its lack says something."""
    rows = [_property(figures, test, chooser, *row) for row in ROWS]
    return [row for row in rows if row.ids or row.name in ("allocation", "overload")]


def _property(
    figures: Figures, test: TestView, chooser: Chooser, name: str, figure: str, better: str, report: str
) -> Property:
    ids = {engine: id for engine in test.engines if (id := _id(figures, test, engine, figure)) in figures.ledger}
    known = {engine for engine, id in ids.items() if not figures.ledger[id].missing}
    winner = chooser.best(ids, min if better == "min" else max) if better else None
    fair = name not in POOLED or pools(figures, test).fair
    if winner and not (fair and (name in EXACT or _tested(test, chooser, figure, winner, known, better))):
        winner = None
    flagged = frozenset(engine for engine in known if _flagged(figures, chooser, ids[engine]))
    return Property(name, ids if known else {}, winner, flagged, report)


def _tested(test: TestView, chooser: Chooser, figure: str, winner: str, known: set[str], better: str) -> bool:
    """Whether the repeats leave no doubt that the best of these engines is better than each other one."""
    where, _, name = figure.partition(":")
    level = {"first": 0, "last": -1}.get(where)
    ratio = next((ratio for ratio, of in RATIOS.items() if of == name), None)
    if name == "peak_throughput":
        ratio = "peak_ratio"
    elif ratio and level is not None and (names := common(test)):
        ratio = f"{ratio}_{names[level]}"
    others = known - {winner}
    return bool(ratio) and all(chooser.beats(ratio, winner, other, lower=better == "min") for other in others)


def _flagged(figures: Figures, chooser: Chooser, id: str) -> bool:
    """Whether a measured figure is one of a flagged level, or rests on one; a peak rests on its own level alone."""
    rests = [id, *figures.ledger[id].input_ids()]
    if id.endswith(".peak_throughput"):
        rests = [i for i in rests if chooser.value(i) == chooser.value(id)]
    levels = [scope for scope in chooser.kinds if not scope.startswith("engine.")]
    return not id.endswith(".shown") and any(i.startswith(f"{level}.") for i in rests for level in levels)


def _id(figures: Figures, test: TestView, engine: str, figure: str) -> str:
    """Id of an engine's figure by where it stands; an id that no ledger has where there is none."""
    where, _, name = figure.partition(":")
    levels = test.levels_of(engine)
    names = common(test)
    if where in ("first", "last"):
        place = 0 if where == "first" else -1
        return f"{test.id}.{engine}.{names[place]}.{name}" if names else f"{levels[place].id}.{name}"
    if where == "sweep":
        return f"{test.id}.{engine}.{name}"
    if where == "engine":
        return f"{engine_scope(figures.starts, levels[0])}.{name}"
    if where == "pair":
        return f"pair.{test.id}.{test.engines[0]}.{engine}.{name}"
    found = cliffs(figures, [engine]) if where == "cliff" else []
    return next((f"{cliff.over}.output_throughput" for cliff in found), "")


@dataclass(frozen=True)
class CliffOf:
    """One engine past its capacity: scopes of its start, of the normal and the longer shape, and of their ratios."""

    test: str
    engine: str
    start: str
    normal: str
    long: str
    over: str


def cliffs(figures: Figures, engines: Iterable[str]) -> list[CliffOf]:
    """The longest shape against the shortest, in every cliff test of these engines."""
    found, wanted = [], set(engines)
    for test in (test for test in figures.tests if test.kind == "cliff"):
        for engine in (engine for engine in test.engines if engine in wanted):
            levels = by_length(test.levels_of(engine))
            if len(levels) > 1:
                normal, long = levels[0], levels[-1]
                start = engine_scope(figures.starts, long)
                found.append(CliffOf(test.id, engine, start, normal.id, long.id, over(long, normal)))
    return found


def allocation(figures: Figures, engine: str) -> str:
    """How an engine hands out KV: `blocks` of a shared pool, fixed `slots`, a `unified` cache, or `unknown`."""
    facts = next((start.facts for start in figures.starts if start.id == engine), None)
    if facts is None or facts.kind not in ("vllm", "llamacpp"):
        return "unknown"
    if facts.kind == "vllm":
        return "blocks"
    return "slots" if "slots" in figures.ledger[f"engine.{engine}.pool_tokens"].inputs else "unified"
