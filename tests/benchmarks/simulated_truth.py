"""Rounds whose truth is known: how often the comparison raises a false alarm, and how often it finds what it says it can.

    .venv/bin/python tests/benchmarks/simulated_truth.py

Every trial composes two rounds of one engine: levels with requests whose latencies are correlated from one to the next
(AR(1) on logarithms) and a noise of each repeat of its own, which moves all its requests together. The per-repeat statistics
enter two ledgers, and the very code of `genreport build --against` judges them. Seeds are fixed: the table is always the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from genreport.comparing.families import COMPARED
from genreport.comparing.judging import Judging, Subject
from genreport.comparing.verdicts import Compared, Comparer
from genreport.figures.book import Book
from genreport.provenance import Ledger, Pointer, Quantity

FIGURES = ("output_throughput", "ttft.p50", "ttft.p99", "itl.p50", "e2el.p50")
HERE = Pointer("simulated", "", 1)
Values = dict[tuple[int, str], np.ndarray]
Which = Callable[[int, str], bool]
Trials = list[tuple[list[Compared], Ledger]]


@dataclass(frozen=True)
class World:
    """What a simulated round is: its size, the noise of a repeat, and how requests follow each other."""

    levels: int = 6
    repeats: int = 3
    requests: int = 100
    noise: float = 0.03  # standard deviation of a repeat's own factor, per latency
    spread: float = 0.3  # standard deviation of a request's logarithm
    rho: float = 0.8  # correlation of successive requests


def simulate(world: World, draw: np.random.Generator) -> Values:
    """(level, figure) -> its value in each repeat."""
    found = {}
    for level in range(world.levels):
        ttft, itl = _latencies(world, draw), _latencies(world, draw)
        e2el = ttft + 50 * itl
        found |= {
            (level, "output_throughput"): 1 / e2el.mean(axis=1),
            (level, "ttft.p50"): np.percentile(ttft, 50, axis=1),
            (level, "ttft.p99"): np.percentile(ttft, 99, axis=1),
            (level, "itl.p50"): np.percentile(itl, 50, axis=1),
            (level, "e2el.p50"): np.percentile(e2el, 50, axis=1),
        }
    return found


def _latencies(world: World, draw: np.random.Generator) -> np.ndarray:
    """Latencies of every repeat and request, in seconds."""
    shape = (world.repeats, world.requests)
    steps = draw.normal(0, world.spread * np.sqrt(1 - world.rho**2), shape)
    log = np.empty(shape)
    log[:, 0] = draw.normal(0, world.spread, world.repeats)
    for k in range(1, world.requests):
        log[:, k] = world.rho * log[:, k - 1] + steps[:, k]
    return 0.1 * np.exp(log + draw.normal(0, world.noise, (world.repeats, 1)))


def slowed(values: Values, factor: float, which: Callable[[int, str], bool]) -> Values:
    """The values with some figures slower by a factor: their latencies longer, their throughput lower."""
    return {
        (level, figure): each
        * (1 if not which(level, figure) else 1 / factor if figure == "output_throughput" else factor)
        for (level, figure), each in values.items()
    }


def judged(old: Values, new: Values) -> tuple[list[Compared], Ledger]:
    """The verdicts of the real code on these values."""
    ledger = Ledger()
    book = Book(SimpleNamespace(plan={}), ledger)
    comparer = Comparer(book, Ledger(), "old", "", "old")
    subjects = []
    for level, figure in old:
        name = f"l{level}.{figure}"
        ids = {side: tuple(f"{side}.{name}.r{k}" for k in range(len(values[level, figure])))
               for side, values in (("old", old), ("new", new))}  # fmt: skip
        for side, values in (("old", old), ("new", new)):
            for id, value in zip(ids[side], values[level, figure], strict=True):
                ledger.add(Quantity(id, float(value), "s", "field", sources=(HERE,)))
        compared = Compared(figure, ids["new"][0], ids["old"][0], f"against.old.{name}", COMPARED[figure])
        subjects.append(Subject(compared, "engine", ids["old"], ids["new"]))
    return list(Judging(comparer, FIGURES, {}, same=False).judged(subjects).values()), ledger


def trials(
    world: World, count: int, seed: int, factor: float = 1.0, which: Which = lambda level, figure: False
) -> Trials:
    """Pairs of rounds, the later one slower where it is said to be."""
    draw = np.random.default_rng(seed)
    return [judged(simulate(world, draw), slowed(simulate(world, draw), factor, which)) for _ in range(count)]


def false_alarms(world: World, count: int, seed: int) -> tuple[float, float, float]:
    """Of rounds without a change: pairs with any verdict of one, figures with one, and figures whose p alone says so."""
    found = trials(world, count, seed)
    wrong = [[c.verdict in ("improved", "regressed") for c in verdicts] for verdicts, _ in found]
    raw = [ledger[f"{c.scope}.p"].value <= 0.05 for verdicts, ledger in found for c in verdicts]
    return float(np.mean([any(each) for each in wrong])), float(np.mean(wrong)), float(np.mean(raw))


def printed(world: World, name: str, count: int, seed: int) -> float:
    """The smallest detectable difference in TTFT p50 that pages of such rounds print: the median, as a share."""
    known = [ledger[f"{c.scope}.{name}"] for verdicts, ledger in trials(world, count, seed) for c in verdicts
             if c.figure == "ttft.p50"]  # fmt: skip
    return float(np.median([np.inf if q.missing else q.value for q in known]))


def power(world: World, count: int, seed: int, factor: float, which: Which) -> float:
    """Share of the slowed TTFT p50 that are said to have regressed."""
    found = [
        c.verdict == "regressed"
        for verdicts, _ in trials(world, count, seed, factor, which)
        for c in verdicts
        if c.figure == "ttft.p50" and which(int(c.scope.split(".")[2][1:]), c.figure)
    ]
    return float(np.mean(found))


WORLDS = [World(noise=noise, repeats=repeats) for noise in (0.03, 0.05) for repeats in (3, 5, 10)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=400)
    count, world = parser.parse_args().trials, World()
    print(f"{count} pairs of rounds a row: {world.levels} levels × {len(FIGURES)} figures, {world.requests} requests "
          f"a repeat, correlation of successive requests {world.rho}")  # fmt: skip
    print("\nNothing changed\nnoise   R   pairs with an alarm   figures with one   figures with p ≤ 0.05")
    for world in WORLDS:
        pairs, figures, raw = false_alarms(world, count, 1)
        print(f"{world.noise:5.0%}  {world.repeats:2d}   {pairs:19.1%}   {figures:16.2%}   {raw:21.1%}", flush=True)
    _found(
        "A third of the levels slower by what is printed as detectable", "detectable", lambda level, _: level < 2, count
    )
    _found("One figure of one level slower by what is printed as detectable alone", "detectable_alone",
           lambda level, figure: (level, figure) == (0, "ttft.p50"), count)  # fmt: skip


def _found(title: str, name: str, which: Which, count: int) -> None:
    print(f"\n{title} (TTFT p50)\nnoise   R   printed   found")
    for world in WORLDS:
        size = printed(world, name, max(40, count // 4), 2)
        shown = (
            "over 900 %      –" if np.isinf(size) else f"{size:7.1%}   {power(world, count, 3, 1 + size, which):5.0%}"
        )
        print(f"{world.noise:5.0%}  {world.repeats:2d}   {shown}", flush=True)


if __name__ == "__main__":
    main()
