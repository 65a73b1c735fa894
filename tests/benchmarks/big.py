"""Composes rounds of any size out of the shapes of a recorded one: its gaps, events, gauges, scrapes and logs.

Composed is not measured. Such a round is named `composed`, its plan says so, and it is written to a temporary folder, never
into the repository. Request records and gauges are as many as a round of that size would hold; scrapes and engine logs are
the recorded ones, whatever the size.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from genreport.records import LaunchFacts, LevelFacts, Request, RoundHead, Shape, Usage
from genreport.rounds import REQUESTS, SAMPLES, SLOTS, Level, Round, RoundWriter

NAME = "composed"
TEST = "concurrency"
SECOND = 1_000_000
SAID = (
    "# Composed from the recorded shapes of another round, to measure how fast a round of this size is published.\n"
    "# Nothing in it was measured.\n"
)


@dataclass(frozen=True)
class Size:
    """How much to compose: `requests` in all, tokens of each, the levels' concurrencies, repeats of each level."""

    requests: int
    output: int = 256
    levels: tuple[int, ...] = (1, 2, 4, 8, 16)
    repeats: int = 3


@dataclass(frozen=True)
class Shapes:
    """What one recorded level offers: first gaps, gaps between tokens, records to copy the rest from."""

    first_us: np.ndarray
    gap_us: np.ndarray
    records: tuple[Request, ...]
    level: Level


def compose(path: Path, source: Round, size: Size) -> Round:
    """Writes and seals a round of that size at `path`, every engine of the recorded sweep in it."""
    writer, engines = RoundWriter(path), _engines(source)
    keys = [
        f"{TEST}/{engine}/c{c}/r{repeat}"
        for repeat in range(1, size.repeats + 1)
        for engine in engines
        for c in size.levels
    ]
    head = source.head.model_copy(update={"name": NAME, "tool": "genreport composed", "planned": keys})
    writer.head(RoundHead.model_validate(head.model_dump()), SAID + source.text("plan.yaml"))
    writer.machine(source.machine)
    for engine in engines:
        _launch(writer, source, engine)
    shapes = cache(lambda engine, c: _shapes(source, engine, c))
    for key, count in zip(keys, _shares(size, len(engines)), strict=True):
        _, engine, level, _ = key.split("/")
        c = int(level[1:])
        _Repeat(key, c, count, size.output, shapes(engine, _nearest(source, engine, c))).write(writer)
    writer.seal(source.head.started_unix_us + 3600 * SECOND)
    return Round(path)


def _engines(source: Round) -> list[str]:
    return list(dict.fromkeys(level.facts.engine for level in source.levels if level.facts.test == TEST))


def _shares(size: Size, engines: int) -> list[int]:
    """Requests of each repeat, as many as its level has places in flight, at least one; all of them are the round's."""
    weights = np.array([c for _ in range(size.repeats * engines) for c in size.levels], dtype=float)
    edges = np.round(np.cumsum(weights) / weights.sum() * (size.requests - len(weights))).astype(int)
    return (np.diff(edges, prepend=0) + 1).tolist()


def _launch(writer: RoundWriter, source: Round, engine: str) -> None:
    id, facts = next((id, f) for id, f in source.launches.items() if f.engine == engine and f.test is None)
    model = writer.model(source.models[facts.model_facts]) if facts.model_facts else None
    log = source.start_log_file(id)
    writer.launch(
        writer.next_launch(engine),
        LaunchFacts.model_validate(facts.model_dump() | {"model_facts": model}),
        source.text(log) if log else None,
    )


def _nearest(source: Round, engine: str, c: int) -> int:
    """The recorded level whose C is the nearest by ratio."""
    known = {
        level.facts.concurrency for level in source.levels if level.facts.engine == engine and level.facts.test == TEST
    }
    return min(known, key=lambda found: (abs(np.log(found / c)), found))


def _shapes(source: Round, engine: str, c: int) -> Shapes:
    levels = [
        level for level in source.levels
        if (level.facts.test, level.facts.engine, level.facts.concurrency) == (TEST, engine, c)
    ]  # fmt: skip
    records = tuple(
        r
        for level in levels
        for r in source.requests(level)
        if not r.warmup and r.failure is None and r.t0_us is not None
    )
    gaps = [np.array(r.gaps_us)[np.array([kind in "tk" for kind in r.kinds])] for r in records]
    return Shapes(
        np.array([gap[0] for gap in gaps]), np.concatenate([gap[1:] for gap in gaps]), records, levels[0]
    )  # fmt: skip


class _Repeat:
    """One repeat of a closed loop: C places, each takes the next request when the one before it ended."""

    def __init__(self, key: str, concurrency: int, count: int, output: int, shapes: Shapes) -> None:
        self.key, self.concurrency, self.count, self.output, self.shapes = key, concurrency, count, output, shapes
        self.random = random.Random(key)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.recorded = shapes.level.facts
        self.before_us = self.last_us = self.recorded.before_us

    def write(self, writer: RoundWriter) -> None:
        level, source = writer.level(self.key), Round(self.shapes.level.root)
        for request in self._requests():
            level.request(request)
        for name in self.recorded.files:
            file = f"{self.shapes.level.path}/{name}"
            if name in (SAMPLES, SLOTS):
                level.text(name, "\n".join(self._gauges(source.text(file).split("\n"))) + "\n")
            elif name != REQUESTS:
                level.text(name, source.text(file))
        level.seal(self._facts())

    def _requests(self) -> Iterator[Request]:
        """The records in order of their ends."""
        places = [self.before_us + 10_000 + 100 * place for place in range(self.concurrency)]
        done: list[tuple[int, int, Request]] = []
        for index in range(self.count):
            request = self._one(index, heapq.heappop(places))
            self.last_us = max(self.last_us, request.end_us)
            heapq.heappush(places, request.end_us + 50)
            heapq.heappush(done, (request.end_us, index, request))
            while done and done[0][0] <= places[0]:  # nothing that is still to come can end before
                yield heapq.heappop(done)[2]
        while done:
            yield heapq.heappop(done)[2]

    def _one(self, index: int, due_us: int) -> Request:
        like = self.random.choice(self.shapes.records)
        kind = next(kind for kind in like.kinds if kind in "tk")
        tail = len(like.kinds.rstrip("eudx"))
        gaps = self.numbers.choice(self.shapes.gap_us, self.output)
        gaps[0] = self.numbers.choice(self.shapes.first_us)
        gaps_us = [*gaps.tolist(), *like.gaps_us[tail:]]
        tokens = None if like.tokens is None else [1] * self.output + like.tokens[tail:]
        start = due_us + 300
        return like.model_copy(
            update={
                "index": index, "seed": self._seed, "asked_output": self.output, "due_us": due_us, "t0_us": start,
                "gaps_us": gaps_us, "kinds": kind * self.output + like.kinds[tail:], "tokens": tokens,
                "usage": self._usage(like), "server": self._server(like, gaps.tolist()),
                "text": (like.text * (2 + 5 * self.output // max(1, len(like.text))))[: 5 * self.output],
                "end_us": start + sum(gaps_us) + 60,
            }
        )  # fmt: skip

    @property
    def _seed(self) -> int:
        return self.recorded.seed + int(self.key.rpartition("/r")[2])

    def _usage(self, like: Request) -> Usage | None:
        return like.usage and like.usage.model_copy(update={"completion_tokens": self.output})

    def _server(self, like: Request, gaps: list[int]) -> dict:
        """What the server says of its times, as long as the composed request."""
        first, rest = gaps[0] / 1000, sum(gaps[1:]) / 1000
        said = {
            "timings": {"prompt_ms": first, "predicted_ms": rest, "predicted_n": self.output},
            "metrics": {"time_to_first_token_ms": first, "generation_time_ms": rest},
        }
        return {
            key: value | said[key] if key in said and isinstance(value, dict) else value
            for key, value in like.server.items()
        }

    def _gauges(self, recorded: Sequence[str]) -> Iterator[str]:
        """The recorded samples over and over, at their period, from the first scrape to the last."""
        head, *rows = [json.loads(line) for line in recorded if line]
        period = max(1, (rows[-1][0] - rows[0][0]) // max(1, len(rows) - 1)) if rows else SECOND
        yield json.dumps(head, separators=(",", ":"))
        for place, t_us in enumerate(range(self.before_us, self._after_us, period) if rows else ()):
            yield json.dumps([t_us, *rows[place % len(rows)][1:]], separators=(",", ":"))

    @property
    def _after_us(self) -> int:
        return self.last_us + 300_000

    def _facts(self) -> dict:
        _, engine, level, repeat = self.key.split("/")
        facts = {name: getattr(self.recorded, name) for name in LevelFacts.model_fields if name != "files"}
        return facts | {
            "level": level, "repeat": int(repeat[1:]), "launch": f"{engine}/1", "concurrency": self.concurrency,
            "shape": Shape(input=self.recorded.shape.input, output=self.output), "requests": self.count, "warmup": 0,
            "seed": self._seed, "after_us": self._after_us,
            "client": self.recorded.client.model_copy(update={"wall_us": self.last_us - self.before_us}),
        }  # fmt: skip
