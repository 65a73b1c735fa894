"""What `make bench` composes and prints: composed rounds are whole, and nothing of them is taken for measured."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import big, peers, publishing
from genreport.rounds import Round, check

RECORDED = Path(__file__).parents[1] / "runs" / "round2"
SIZE = big.Size(requests=60, output=8, levels=(1, 3, 16), repeats=2)


@pytest.fixture(scope="module")
def source() -> Round:
    return Round(RECORDED)


@pytest.fixture(scope="module")
def composed(source: Round, tmp_path_factory: pytest.TempPathFactory) -> Round:
    return big.compose(tmp_path_factory.mktemp("bench") / "composed", source, SIZE)


def test_a_composed_round_is_sealed_and_whole(composed):
    assert list(check(composed.path)) == []
    assert composed.unsealed == []


def test_a_composed_round_says_that_nothing_in_it_was_measured(composed):
    assert composed.head.name == "composed"
    assert "Nothing in it was measured" in composed.text("plan.yaml")


def test_a_composed_round_has_as_many_requests_and_tokens_as_asked_for(composed):
    requests = [request for level in composed.levels for request in composed.requests(level)]
    assert len(requests) == 60
    assert {request.kinds.count("t") for request in requests} == {8}
    assert {request.usage.completion_tokens for request in requests} == {8}


def test_equal_sizes_give_equal_bytes(source, composed, tmp_path):
    assert big.compose(tmp_path / "again", source, SIZE).seal.files == composed.seal.files


def test_gaps_of_a_composed_level_are_recorded_ones(source, composed):
    taken = {
        gap
        for level in source.levels
        if level.facts.level == "c16"
        for r in source.requests(level)
        for gap in r.gaps_us
    }
    level = next(level for level in composed.levels if level.facts.level == "c16")
    assert {gap for request in composed.requests(level) for gap in request.gaps_us} <= taken


def test_a_level_that_was_not_recorded_takes_the_shapes_of_the_nearest(source):
    assert [big._nearest(source, "vllm-bf16", c) for c in (1, 3, 6, 64)] == [1, 4, 8, 16]


def test_a_composed_loop_is_closed_and_its_records_stand_in_the_order_of_their_ends(composed):
    for level in composed.levels:
        requests = composed.requests(level)
        assert requests == sorted(requests, key=lambda request: request.end_us)
        for request in requests:
            in_flight = [r for r in requests if r.due_us <= request.due_us < r.end_us]
            assert len(in_flight) <= level.facts.concurrency


def test_samples_of_a_composed_repeat_last_as_long_as_its_requests(composed):
    level = composed.levels[0]
    last = max(request.end_us for request in composed.requests(level))
    times = [int(line.partition(",")[0][1:]) for line in composed.text(level.file("samples.jsonl")).splitlines()[1:]]
    assert times[0] == level.facts.before_us
    assert last - 600_000 < times[-1] <= level.facts.after_us


@given(st.integers(30, 100_000), st.lists(st.integers(1, 64), min_size=1, max_size=6, unique=True), st.integers(1, 4))
def test_requests_are_shared_out_among_levels_to_the_last_one(requests, levels, repeats):
    shares = big._shares(big.Size(max(requests, 3 * len(levels) * repeats), 1, tuple(levels), repeats), 3)
    assert sum(shares) == max(requests, 3 * len(levels) * repeats)
    assert min(shares) >= 1


def test_a_repeat_in_vllm_s_format_holds_every_request_and_its_own_times(composed):
    level = composed.levels[0]
    requests = composed.requests(level)
    result = peers.vllm_result(level, requests)
    first = [request.gaps_us[0] / 1000 for request in requests]
    assert result["completed"] == len(result["ttfts"]) == len(result["itls"]) == len(requests)
    assert result["median_ttft_ms"] == pytest.approx(np.median(first))
    assert len(result["itls"][0]) == 7


def test_a_command_is_timed_with_the_memory_of_all_its_processes(tmp_path):
    child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'x = bytes([1]) * 50_000_000; import time; time.sleep(.4)'])"
    run = publishing.measured([sys.executable, "-c", child], tmp_path)
    assert run.seconds > 0.4
    assert run.peak_bytes > 50_000_000


def test_a_command_that_fails_ends_the_benchmark_with_its_words(tmp_path):
    with pytest.raises(SystemExit, match="no such thing"):
        publishing.measured([sys.executable, "-c", "raise SystemExit('no such thing')"], tmp_path)


def test_a_line_says_whether_its_limit_holds():
    held = publishing.Line("build", "9.1 s", "10 s", True)
    assert held.markdown() == "| build | 9.1 s | 10 s | yes |  |"
    assert publishing.Line("page", "420 kB", "400 kB", False).markdown() == "| page | 420 kB | 400 kB | **no** |  |"
