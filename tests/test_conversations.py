"""Conversations of several turns: what is sent when, what a failed turn costs, and what the records say."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from pathlib import Path

import pytest

from fault_server import serving
from genreport import rounds
from genreport.client import Call, Client, Clock
from genreport.corpus import joined
from genreport.crew import Means, workers_for
from genreport.errors import PlanError
from genreport.load import Talk, conversations
from genreport.plan import read_plan
from genreport.planning.ahead import told
from test_load import broken, token
from test_runner import engine, measured, plan_of


def talk(number: int, turns: int) -> Talk:
    """A conversation whose every turn sends all answers so far."""
    heard: list[str] = []
    for turn in range(turns):
        body = {"prompt": list(heard)}
        answer = yield Call(
            index=10 * number + turn, conversation=number, turn=turn, seed=1, body=body, asked_input=1, asked_output=1
        )
        heard.append(answer)


async def slow(peer):
    await peer.start()
    await asyncio.sleep(0.01)
    await peer.end(token(f"heard {len(peer.body['prompt'])}", "length"), "[DONE]")


async def held(server, turns: list[int], at_once: int, think_s: float = 0):
    records = []
    async with Client(server.url) as client:
        talks = (talk(number, count) for number, count in enumerate(turns))
        await conversations(client, talks, at_once, think_s, Clock(), records.append)
    return records


@pytest.mark.anyio
async def test_a_turn_sends_the_answers_that_the_server_really_gave():
    async with serving(slow) as server:
        records = await held(server, [3], 1)
    assert [peer.body["prompt"] for peer in server.peers] == [[], ["heard 0"], ["heard 0", "heard 1"]]
    assert [(record.conversation, record.turn, record.text) for record in records] == [
        (0, 0, "heard 0"), (0, 1, "heard 1"), (0, 2, "heard 2"),
    ]  # fmt: skip


@pytest.mark.anyio
async def test_a_turn_is_due_when_the_answer_before_it_ended_and_the_user_has_thought():
    async with serving(slow) as server:
        records = await held(server, [3, 2], 1, think_s=0.03)
    first, later = records[0], records[1:]
    for before, record in zip(records, later, strict=False):
        thought_us = 30_000 if record.turn else 0  # the next conversation begins at once
        assert record.due_us == before.end_us + thought_us
    assert all(record.t0_us >= record.due_us for record in [first, *later])


@pytest.mark.anyio
async def test_so_many_conversations_are_under_way_and_each_has_one_request_at_most():
    async with serving(slow) as server:
        records = await held(server, [3] * 6, 2)
    assert len(records) == 18
    spans = {}
    for record in records:
        since, until = spans.get(record.conversation, (record.t0_us, record.end_us))
        spans[record.conversation] = min(since, record.t0_us), max(until, record.end_us)
    moments = sorted([(since, 1) for since, _ in spans.values()] + [(until, -1) for _, until in spans.values()])
    depth = [sum(step for _, step in moments[: k + 1]) for k in range(len(moments))]
    assert max(depth) == 2
    for number in spans:
        own = sorted((r for r in records if r.conversation == number), key=lambda record: record.turn)
        assert all(later.t0_us >= earlier.end_us for earlier, later in itertools.pairwise(own))


@pytest.mark.anyio
async def test_a_failed_turn_ends_its_conversation_and_no_other():
    async with serving(slow, broken, slow) as server:
        records = await held(server, [3, 3], 1)
    assert [(record.conversation, record.turn, record.failure is not None) for record in records] == [
        (0, 0, False), (0, 1, True), (1, 0, False), (1, 1, False), (1, 2, False),
    ]  # fmt: skip


def test_as_one_text_a_turn_begins_with_what_was_sent_before():
    said = [("user", "one two"), ("assistant", " three four"), ("user", "five")]
    messages = [{"role": role, "content": text} for role, text in said]
    assert joined(messages) == "one two three four five"
    assert joined(messages).startswith(joined(messages[:1]) + " three four")


def talking(**fields):
    test = {"id": "talk", "kind": "conversation", "turns": 3, "input": 4, "output": 5, "levels": [2], "repeats": 1}
    return test | {"warmup": 1, "conversations": 4} | fields


@pytest.mark.parametrize(("chat", "prefix"), [(True, 6), (False, 6), (True, 0)])
def test_conversations_are_recorded_end_to_end(tmp_path: Path, port: int, chat, prefix) -> None:
    test = talking(chat=chat, prefix=prefix, think_s=0.001)
    found = measured(plan_of(tmp_path, engine(port), tests=[test]), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    (level,) = found.levels
    facts = level.facts
    assert (facts.kind, facts.concurrency, facts.mixed, facts.requests) == ("conversation", 2, True, 12)
    assert (facts.conversations.begun, facts.conversations.unsent, facts.remarks) == (4, 0, [])
    assert facts.shape.input == prefix + 4 + 9
    warm, *sent = sorted(found.requests(level), key=lambda request: (not request.warmup, request.index))
    assert warm.conversation is None
    assert "conversation" not in json.loads(found.text(level.file(rounds.REQUESTS)).splitlines()[0])
    assert [(r.conversation, r.turn) for r in sent] == [(n, k) for n in range(4) for k in range(3)]
    # the fake engine counts words, of which its answers have as many as tokens
    assert [r.usage.prompt_tokens for r in sent[:3]] == [prefix + 4, prefix + 13, prefix + 22]
    assert [r.asked_input for r in sent[:3]] == [prefix + 4, prefix + 13, prefix + 22]


def test_turns_that_a_failure_kept_from_being_sent_are_counted_and_said(tmp_path: Path, port: int) -> None:
    test = talking(levels=[1], conversations=2, warmup=0)
    found = measured(plan_of(tmp_path, engine(port, "--fail-every", "2"), tests=[test]), tmp_path / "round")
    facts = found.levels[0].facts
    assert (facts.requests, facts.conversations.begun, facts.conversations.unsent) == (4, 2, 2)
    assert facts.remarks == ["2 turns were not sent, because a turn before them failed"]


def test_by_time_no_conversation_begins_after_the_end_and_those_under_way_are_finished(
    tmp_path: Path,
    port: int,
) -> None:
    test = {k: v for k, v in talking(duration_s=0.2).items() if k != "conversations"}
    found = measured(plan_of(tmp_path, engine(port), tests=[test]), tmp_path / "round")
    facts = found.levels[0].facts
    assert facts.requests == 3 * facts.conversations.begun > 0
    assert facts.conversations.unsent == 0


@pytest.mark.parametrize(("fields", "said"), [
    ({"duration_s": 5}, "ends by `conversations` or by `duration_s`, not by both"),
    ({"levels": [8]}, "4 conversations can not keep 8 under way"),
    ({"levels": [2, 1]}, "must rise, each value once, not 2, 1"),
    ({"turns": 0}, "must be above 0, not 0"),
])  # fmt: skip
def test_a_mistake_in_a_conversation_is_told_in_plain_words(tmp_path: Path, fields, said) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        read_plan(plan_of(tmp_path, engine(1), tests=[talking(**fields)]))


def test_messages_to_a_server_with_an_endpoint_of_its_own_are_a_mistake(tmp_path: Path) -> None:
    own = engine(1, kind="tgi")
    with pytest.raises(PlanError, match="sends messages, and fake is asked at an endpoint of its own; `chat: false`"):
        read_plan(plan_of(tmp_path, own, tests=[talking()]))
    read_plan(plan_of(tmp_path, own, tests=[talking(chat=False)]))


def test_conversations_and_soaks_are_held_by_one_process_whatever_is_asked_for(tmp_path: Path) -> None:
    soak = {"id": "soak", "kind": "soak", "input": 8, "output": 3, "rate": 50, "duration_s": 60}
    plan = read_plan(plan_of(tmp_path, engine(1), tests=[talking(), soak]))
    means = Means(wanted=4, cores=8, free=8, ceiling=1)
    assert [workers_for(level, 500, means) for test in plan.tests for level in test.levels()] == [1, 1]


def test_plan_check_tells_of_conversations(tmp_path: Path) -> None:
    lines = "\n".join(told(read_plan(plan_of(tmp_path, engine(1), tests=[talking()]), on_this_machine=False)))
    assert "talk/c2: 1 × 12 requests + 1 warm-up, 2 conversations of 3 turns under way, 13 + 5 tokens" in lines
