"""Work shared out among the cores of the machine, where there is enough of it to pay for further processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, get_context
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

# what the processes will need: imported once, by the process that they are forked from
_NEEDED = ["genreport.audit.figures", "genreport.site.listings"]


def count() -> int:
    """Cores that this process may use: a container or taskset may leave it few of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def get_ready() -> None:
    """Begins to import what the processes will need, while this one has other work to do first."""
    if count() > 1:
        get_context("forkserver").set_forkserver_preload(_NEEDED)
        forkserver.ensure_running()


def each(task: Callable[[Part], Result], parts: Sequence[Part]) -> Iterator[Result]:
    """The task's result for every part, in their order; with one part or one core, in this process."""
    at_once = min(len(parts), count())
    if at_once < 2:
        yield from map(task, parts)
        return
    with ProcessPoolExecutor(at_once, mp_context=get_context("forkserver")) as pool:
        yield from pool.map(task, parts)


def shared_out(sizes: Sequence[float], most: int) -> list[list[int]]:
    """Places of the sizes in at most so many parts of about the same sum, the largest ones first."""
    parts: list[list[int]] = [[] for _ in range(min(most, len(sizes)))]
    sums = [0.0] * len(parts)
    for place in sorted(range(len(sizes)), key=lambda place: -sizes[place]):
        smallest = sums.index(min(sums))
        parts[smallest].append(place)
        sums[smallest] += sizes[place]
    return parts
