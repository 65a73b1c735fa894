"""T14: what must hold among the numbers of any recorded round, read from the committed ones in plain Python."""

import json
from bisect import bisect_right
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path

import pytest

from genreport.figures import compute
from genreport.rounds import Round

RUNS = sorted(path for path in (Path(__file__).parents[1] / "runs").iterdir() if (path / "seal.json").is_file())
PERCENTILES = ("p50", "p90", "p95", "p99")


@cache
def opened(path: Path):
    return compute(Round(path))


def levels(figures):
    return [level for test in figures.tests for engine in test.engines for level in test.levels_of(engine)]


def whole(path: Path, level):
    """The measured records of a repeat that count, and the stamps of their text events in seconds."""
    lines = (path / level.requests_file).read_text("utf-8").splitlines()
    for record in map(json.loads, lines):
        if record["warmup"] or record["failure"]:
            continue
        stamps = accumulate(record["gaps_us"], initial=record["t0_us"])
        yield record, [us / 1e6 for us, kind in zip(stamps, " " + record["kinds"], strict=True) if kind in "tk"]


@pytest.fixture(params=RUNS, ids=lambda path: path.name)
def path(request):
    return request.param


def test_there_are_rounds_to_look_at():
    assert len(RUNS) >= 4


def test_ttft_and_tpot_of_the_other_tokens_make_up_the_whole_latency(path):
    """TTFT + TPOT · (n − 1) = E2EL, of means over the requests of a level as of each request."""
    figures = opened(path)
    assert levels(figures)
    for view in levels(figures):
        ttft, rest, e2el, several = 0.0, 0.0, 0.0, 0
        tpot = figures.ledger[f"{view.id}.tpot.mean"].value
        for repeat in view.repeats:
            for record, stamps in whole(path, repeat):
                n = record["usage"]["completion_tokens"]
                ttft += stamps[0] - record["t0_us"] / 1e6
                e2el += stamps[-1] - record["t0_us"] / 1e6
                rest += (stamps[-1] - stamps[0]) / (n - 1)
                several += 1
        assert tpot == pytest.approx(rest / several)
        outputs = {record["usage"]["completion_tokens"] for r in view.repeats for record, _ in whole(path, r)}
        if len(outputs) == 1:  # then it holds of means too
            n = outputs.pop()
            assert figures.ledger[f"{view.id}.ttft.mean"].value + tpot * (n - 1) == pytest.approx(e2el / several)


def test_requests_in_flight_are_their_rate_times_their_latency(path):
    """Little: N = λ · W; and no more are in flight than the level asks for."""
    figures = opened(path)
    for view in levels(figures):
        ledger, spans = figures.ledger, []
        for repeat in view.repeats:
            mine = [
                (record["t0_us"], record["end_us"], record["t0_us"] / 1e6, stamps[-1])
                for record, stamps in whole(path, repeat)
            ]
            spans += [last - start for _, _, start, last in mine]
            starts, ends = (sorted(times) for times in list(zip(*mine, strict=True))[:2])
            if view.concurrency:
                assert max(place + 1 - bisect_right(ends, at) for place, at in enumerate(starts)) <= view.concurrency
        waited = sum(spans) / len(spans)
        rate = ledger[f"{view.id}.request_throughput"].value
        assert ledger[f"{view.id}.mean_in_flight"].value == pytest.approx(rate * waited)
        assert not view.concurrency or ledger[f"{view.id}.mean_in_flight"].value <= view.concurrency * (1 + 1e-9)


def test_percentiles_rise_and_a_mean_lies_between_the_extremes(path):
    figures = opened(path)
    for view in levels(figures):
        for name in ("ttft", "tpot", "itl", "e2el"):
            found = [figures.ledger[f"{view.id}.{name}.{q}"].value for q in PERCENTILES]
            assert all(low <= high for low, high in pairwise(found)), (view.id, name)
        rates = [figures.ledger[f"{view.id}.output_throughput{end}"].value for end in (".min", "", ".max")]
        assert rates == sorted(rates)


def test_tokens_are_those_of_the_requests_and_of_the_engine_where_it_counts(path):
    figures = opened(path)
    for view in levels(figures):
        total = sum(record["usage"]["completion_tokens"] for r in view.repeats for record, _ in whole(path, r))
        assert figures.ledger[f"{view.id}.output_tokens"].value == total
        assert figures.ledger[f"{view.id}.check.engine_generation_tokens"].value == 0


# what a kind of engine does not state, and so nothing can be held against
UNSTATED = {"vllm": {"server_tokens"}, "llamacpp": {"engine_requests"}}
CHECKS = ("tokens_sum", "prompt_tokens", "server_tokens", "server_time", "stamps", "engine_requests", "engine_prompt_tokens",
          "engine_generation_tokens")  # fmt: skip


def test_every_check_was_made_and_found_nothing_except_of_what_an_engine_does_not_state(path):
    figures = opened(path)
    kinds = {start.facts.engine: start.facts.kind for start in figures.starts}
    for test in figures.tests:
        for engine in test.engines:
            for view in test.levels_of(engine):
                found = {name: figures.ledger[f"{view.id}.check.{name}"] for name in CHECKS}
                assert {name for name, check in found.items() if check.missing} == UNSTATED[kinds[engine]], view.id
                assert not any(check.value for check in found.values()), view.id
