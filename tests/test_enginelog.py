"""Lines of an engine's log that belong to a request: told where log and record name the same times, and not told otherwise."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from genreport.enginelog import lines_of_requests

ROUND = Path(__file__).parents[1] / "runs" / "round2"


def record(prompt_ms: float, predicted_ms: float, prompt_n: int = 64, predicted_n: int = 96) -> str:
    timings = {"prompt_ms": prompt_ms, "predicted_ms": predicted_ms, "prompt_n": prompt_n, "predicted_n": predicted_n}
    return json.dumps({"server": {"timings": timings}})


def ended(task: int, prompt: str, predicted: str, prompt_n: int = 64, predicted_n: int = 96) -> list[str]:
    head = f"0.58.761.568 I slot print_timing: id  0 | task {task} |"
    return [
        f"{head} prompt eval time = {prompt:>10} ms / {prompt_n:>5} tokens (   11.92 ms per token,    83.91 tokens per second)",
        f"{head}        eval time = {predicted:>10} ms / {predicted_n:>5} tokens (   58.77 ms per token)",
    ]


def begun(task: int) -> str:
    return f"0.52.415.545 I slot launch_slot_: id  0 | task {task} | processing task, is_child = 0"


PASSED = "0.53.178.635 I slot get_availabl: id  0 | task 7 |  - skipping, is_processing = 1"


def test_a_task_that_ended_with_the_times_of_a_record_is_its_own():
    log = [begun(7), begun(8), PASSED, *ended(8, "762.93", "5583.31"), *ended(7, "762.71", "5583.09")]
    assert lines_of_requests([record(762.714, 5583.094), record(762.925, 5583.309)], log) == {
        1: [1, 6, 7],
        2: [2, 4, 5],
    }


def test_a_half_may_have_been_rounded_either_way():
    for printed in ("690.90", "690.91"):
        assert lines_of_requests([record(690.905, 2373.895)], ended(7, printed, "2373.90")) == {1: [1, 2]}


def test_two_tasks_or_two_records_with_the_same_times_are_not_told_apart():
    twice = [*ended(7, "1.00", "2.00"), *ended(8, "1.00", "2.00")]
    assert lines_of_requests([record(1, 2)], twice) == {}
    assert lines_of_requests([record(1, 2), record(1.001, 2.001)], twice[:2]) == {}


def test_other_tokens_are_another_task():
    assert lines_of_requests([record(1, 2, predicted_n=95)], ended(7, "1.00", "2.00")) == {}


def test_a_record_without_times_and_a_log_without_tasks_tell_nothing():
    assert (
        lines_of_requests(['{"server":{}}', '{"server":{"timings":{"prompt_ms":true}}}'], ended(7, "1.00", "2.00"))
        == {}
    )
    assert lines_of_requests([record(1, 2)], ["INFO Engine 000: Iteration(2119): 1 context requests"]) == {}


@given(
    st.lists(
        st.text(max_size=60)
        | st.sampled_from([begun(7), PASSED, *ended(7, "1.00", "2.00"), "| task 7 | eval time = 1.2.3"])
    )
)
def test_no_log_ends_a_build(log):
    found = lines_of_requests([record(1, 2)], log)
    assert all(1 <= line <= len(log) for lines in found.values() for line in lines)


def test_most_requests_of_the_recorded_round_are_found_in_their_log():
    import gzip

    folders = sorted(ROUND.glob("levels/concurrency/llamacpp-*/*/r*"))
    told = total = 0
    for folder in folders:
        requests = (folder / "requests.jsonl").read_text("utf-8").splitlines()
        log = gzip.decompress((folder / "engine.log.gz").read_bytes()).decode("utf-8", "replace").split("\n")
        told += len(lines_of_requests(requests, log))
        total += len(requests)
    assert told > 0.9 * total
