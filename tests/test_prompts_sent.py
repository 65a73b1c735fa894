"""What requests have in common: the prompts as a server got them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genreport.arrivals import BLOCK
from test_corpus import asked
from test_runner import engine, measured, plan_of, quick  # noqa: F401 (quick is a fixture, used by name alone)
from test_shapes import open_test


def sent(tmp_path: Path, port: int, **load: object) -> list[list[list[int]]]:
    """The prompts, as token ids, that each repeat of an open loop sent, the longest first."""
    plan = plan_of(tmp_path, engine(port, "--echo"), tests=[open_test(**load)])
    found = measured(plan, tmp_path / "round")
    return [sorted(asked(found, level), key=len, reverse=True) for level in found.levels]


def test_blocks_of_a_trace_are_the_same_tokens_wherever_they_occur_in_a_repeat(tmp_path: Path, port: int) -> None:
    lengths = {1200: [7, 8], 1100: [7, 9, 8], 700: [9, 7], 300: [7], 20: []}
    rows = [{"timestamp": 0, "input_length": n, "output_length": 1, "hash_ids": b} for n, b in lengths.items()]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    trace = {"trace": str(tmp_path / "trace.jsonl"), "input": None, "output": None, "repeats": 2}
    first, second = sent(tmp_path, port, **trace)
    for prompts in (first, second):
        assert [len(prompt) for prompt in prompts] == list(lengths)
        two, three, turned, cut, alone = prompts
        seven, eight, nine = two[:BLOCK], two[BLOCK : 2 * BLOCK], three[BLOCK : 2 * BLOCK]
        assert len({tuple(block) for block in (seven, eight, nine)}) == 3
        assert three == seven + nine + eight[: 1100 - 2 * BLOCK]  # what a prompt is too short for is cut
        assert turned == nine + seven[: 700 - BLOCK]
        assert cut == seven[:300]
        own = two[2 * BLOCK :]
        assert all(part[:8] != block[:8] for part in (own, alone) for block in (seven, eight, nine))  # past its blocks
    assert first[0][:BLOCK] != second[0][:BLOCK]


@pytest.mark.parametrize(("share", "common"), [(0, 0), (0.25, 10), (1, 40)])
def test_requests_share_as_much_of_their_prompts_as_was_asked_for(tmp_path: Path, port: int, share, common) -> None:
    test = {"rates": [200], "requests": 4, "input": 40, "output": 1, "shared_prefix": share, "repeats": 2}
    repeats = sent(tmp_path, port, **test)
    for prompts in repeats:
        assert [len(prompt) for prompt in prompts] == [40] * 4
        assert len({tuple(prompt[:common]) for prompt in prompts}) == 1
        # beyond it each is its own from its first tokens on: of five thousand ids two seldom agree, four never
        assert len({tuple(prompt[common : common + 4]) for prompt in prompts}) == (4 if common < 40 else 1)
    assert repeats[0][0][:10] != repeats[1][0][:10]
