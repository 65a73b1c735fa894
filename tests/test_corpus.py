"""Prompts from files: which lines are read how, what is cut of a text, and what a round keeps of it."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport import rounds
from genreport.corpus import chosen, described, excerpts, read_chats, read_text
from genreport.errors import EngineError, PlanError
from genreport.plan import read_plan
from genreport.progress import Silent
from genreport.records import OWN_DIALECT
from test_conversations import talking
from test_runner import engine, measured, plan_of, sweep
from test_shapes import open_test

SHAREGPT = {"id": "a", "conversations": [
    {"from": "gpt", "value": "ahead"}, {"from": "human", "value": "one two"}, {"from": "gpt", "value": "three"},
    {"from": "human", "value": "four five six"}, {"from": "gpt", "value": "seven"},
]}  # fmt: skip
OPENAI = {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "eight nine"}]}
TEXT = "It was the best of times, it was the worst of times.\n\nIt was the age of wisdom.\n"


def lines(folder: Path, *rows: Any) -> str:
    path = folder / "chats.jsonl"
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return str(path)


def test_both_layouts_of_chats_are_read(tmp_path):
    sharegpt, openai = read_chats(lines(tmp_path, SHAREGPT, "", OPENAI))
    assert sharegpt.asked == ["one two", "four five six"]
    assert [message["role"] for message in sharegpt.messages] == ["user", "assistant", "user"]
    assert openai.messages == OPENAI["messages"]


@pytest.mark.parametrize(("row", "said"), [
    ("[{", "is no JSON; give one object a line (`jq -c '.[]'` makes lines of a list)"),
    ("[]", "has no list `conversations` or `messages`; give it one, or leave the line out"),
    ({"messages": "hello"}, "has no list `conversations` or `messages`; give it one, or leave the line out"),
    ({"messages": ["hello"]}, "a message is no object; give it `role` and `content`"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "`role` must be one of user, assistant, system, not 'tool'"),
    ({"conversations": [{"from": "you", "value": "x"}]}, "`from` must be one of human, gpt, system, not 'you'"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
     "`content` must be text; leave out lines with pictures or calls of tools"),
    ({"messages": [{"role": "assistant", "content": "x"}]},
     "nobody asks anything; give it a message of the user, or leave the line out"),
])  # fmt: skip
def test_a_bad_line_is_refused_with_its_place_and_what_to_do(tmp_path, row, said):
    path = lines(tmp_path, OPENAI, row)
    with pytest.raises(ValueError, match=re.escape(f"{path}:2: {said}")):
        read_chats(path)


def test_files_that_hold_no_text_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"one\n\xff")
    (tmp_path / "b").write_text(" \n")
    for name, said in (
        ("a", "a:2: is not UTF-8 text; convert the file"),
        ("b", "holds no word"),
        ("c", "can not be read"),
    ):
        with pytest.raises(ValueError, match=said):
            read_text(str(tmp_path / name))


ROWS = st.recursive(st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
    st.sampled_from(["conversations", "messages", "from", "value", "role", "content"]), inner, max_size=3))  # fmt: skip


@given(row=ROWS)
def test_no_line_does_more_than_be_refused(tmp_path_factory, row):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text(json.dumps(row))
    with suppress(ValueError):
        assert read_chats(str(path))[0].asked


@given(length=st.integers(1, 50), seed=st.text(max_size=5))
def test_a_piece_of_a_text_is_as_long_as_asked_and_the_same_for_its_seed(length, seed):
    words = TEXT.split()
    piece = excerpts(words)(seed, length)
    assert piece == excerpts(words)(seed, length)
    assert len(piece) == length
    assert " ".join(piece[: len(words)]) in " ".join(words * 3)


@given(seed=st.integers(0, 2**31), count=st.integers(1, 20))
def test_no_chat_comes_again_before_all_have_come(seed, count):
    assert sorted(chosen(range(count), seed, place) for place in range(count)) == list(range(count))
    assert chosen(range(count), seed, 0) == chosen(range(count), seed, count)


@pytest.mark.parametrize("later", ["another text", None])
def test_a_file_is_described_as_it_was_read_whatever_becomes_of_it(tmp_path, later):
    path = tmp_path / "book.txt"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert read_text(str(path)) == TEXT
    path.write_text(later) if later else path.unlink()
    known = described(str(path))
    assert known.sha256 == hashlib.sha256(b"\xef\xbb\xbf" + TEXT.encode()).hexdigest()
    assert (known.name, known.bytes) == ("book.txt", len(TEXT) + 3)


def asked(found: rounds.Round, level: rounds.Level) -> list[Any]:
    """What the fake engine says it was asked, in order."""
    log = found.text(level.file(rounds.ENGINE_LOG)).splitlines()
    return [json.loads(line.removeprefix("asked ")) for line in log if line.startswith("asked ")]


def chats_test(path: str, **fields: Any) -> dict[str, Any]:
    test = sweep(prompts=path, levels=[1], repeats=1, **fields)
    del test["input"]
    return test


@pytest.mark.parametrize("form", ["ids", "text"])
def test_prompts_are_cut_of_a_text_to_the_tokens_asked_for(tmp_path: Path, port: int, form) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    test = sweep(prompts=str(tmp_path / "book.txt"), levels=[1], repeats=1)
    plan = plan_of(tmp_path, engine(port, "--echo", prompt=form), tests=[test])
    found = measured(plan, tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    (level,) = found.levels
    prompts = asked(found, level)
    assert len({json.dumps(prompt) for prompt in prompts}) > 1
    whole = TEXT.split() if form == "text" else list(range(len(TEXT.split())))
    for prompt in prompts:
        piece = prompt.split() if form == "text" else prompt
        assert any((whole * 2)[k : k + 8] == piece for k in range(len(whole)))
    assert all(request.usage.prompt_tokens == request.asked_input == 8 for request in found.requests(level))
    known = level.facts.prompts
    assert (known.name, known.bytes) == ("book.txt", len(TEXT))
    assert known.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert "best of times" not in found.text(level.file(rounds.REQUESTS))


def test_without_a_tokenizer_an_engine_is_not_measured_and_the_way_out_is_said(tmp_path: Path, port: int) -> None:
    (tmp_path / "book.txt").write_text(TEXT)
    test = sweep(prompts=str(tmp_path / "book.txt"))
    said: list[str] = []

    class Said(Silent):
        def say(self, line: str) -> None:
            said.append(line)

    with pytest.raises(EngineError):
        measured(plan_of(tmp_path, engine(port, "--no-tokenize"), tests=[test]), tmp_path / "round", progress=Said())
    assert any("its /tokenize gives no token ids; say `prompt: text` in the plan" in line for line in said)


@pytest.mark.parametrize("chat", [True, False])
def test_chats_are_sent_whole_at_the_endpoint_that_the_plan_names(tmp_path: Path, port: int, chat) -> None:
    path = lines(tmp_path, SHAREGPT, OPENAI)
    test = chats_test(path, chat=chat, warmup=0, requests=4)
    found = measured(plan_of(tmp_path, engine(port, "--echo"), tests=[test]), tmp_path / "round")
    (level,) = found.levels
    whole = [message for chat in read_chats(path) for message in [chat.messages]]
    if chat:
        assert sorted(map(json.dumps, asked(found, level))) == sorted(map(json.dumps, whole * 2))
    else:
        assert sorted(asked(found, level)) == sorted(["one two\nthree\nfour five six", "be brief\neight nine"] * 2)
    assert (level.facts.chat, level.facts.mixed, level.facts.shape.input) == (chat, True, 5)
    assert {request.asked_input for request in found.requests(level)} == {6, 4}


def test_open_loops_send_chats_too(tmp_path: Path, port: int) -> None:
    test = {k: v for k, v in open_test(rates=[100], requests=5, chat=True).items() if k != "input"}
    test["prompts"] = lines(tmp_path, SHAREGPT, OPENAI)
    found = measured(plan_of(tmp_path, engine(port), tests=[test]), tmp_path / "round")
    assert [level.facts.requests for level in found.levels] == [5]
    assert all(request.failure is None for request in found.requests(found.levels[0]))


def test_conversations_take_the_users_turns_from_a_file_and_the_answers_from_the_server(
    tmp_path: Path,
    port: int,
) -> None:
    test = talking(prompts=lines(tmp_path, SHAREGPT, OPENAI), turns=2, conversations=2, levels=[1], warmup=0)
    del test["input"]
    found = measured(plan_of(tmp_path, engine(port, "--echo"), tests=[test]), tmp_path / "round")
    (level,) = found.levels
    said = asked(found, level)
    assert len(said) == level.facts.requests == 3
    assert (level.facts.conversations.begun, level.facts.conversations.unsent) == (2, 0)
    longest = max(said, key=len)
    assert [m["content"] for m in longest if m["role"] == "user"] == ["one two", "four five six"]
    assert longest[1] == {"role": "assistant", "content": " a" * 5}
    assert OPENAI["messages"] in said


@pytest.mark.parametrize(("test", "said"), [
    (sweep(prompts="nowhere.txt"), "nowhere.txt can not be read: No such file or directory"),
    (sweep(prompts="x.jsonl"), "chats of a file have lengths of their own: no `input`"),
    ({k: v for k, v in sweep().items() if k != "input"}, "`input` is missing"),
    ({"id": "l", "kind": "length", "concurrency": 1, "output": 2, "inputs": [1, 2], "prompts": "x.jsonl"},
     "chats of a file have lengths of their own: no `kind: length`"),
])  # fmt: skip
def test_a_mistake_about_a_file_is_told_in_plain_words(tmp_path: Path, test, said) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        read_plan(plan_of(tmp_path, engine(1), tests=[test]))


@pytest.mark.parametrize("kind", OWN_DIALECT)
def test_messages_go_to_no_server_that_has_a_dialect_of_its_own(tmp_path: Path, kind) -> None:
    path = lines(tmp_path, OPENAI)
    with pytest.raises(PlanError, match="sends messages, and fake is asked at an endpoint of its own"):
        read_plan(plan_of(tmp_path, engine(1, kind=kind), tests=[chats_test(path, chat=True)]))
    read_plan(plan_of(tmp_path, engine(1, kind=kind), tests=[chats_test(path)]))
