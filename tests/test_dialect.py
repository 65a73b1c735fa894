"""The payloads here are composed: the form of each server, the words of none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.dialect import MESSAGE_ROOM, Event, clean, increments, kind_letters, parse, token_counts
from genreport.records import Usage


def completion(text="", **more):
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def chat(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage(n, prompt=3, **more):
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": n, **more}}


def timings(n):
    return {"timings": {"prompt_n": 3, "predicted_n": n, "predicted_ms": 1.5 * n}}


def read(*payloads) -> tuple[list[Event], list[int] | None, str]:
    events = list(increments([event for payload in payloads if (event := parse(json.dumps(payload)))]))
    last = next((event.usage for event in reversed(events) if event.usage), None)
    tokens = token_counts(events, last.completion_tokens if last else None)
    return events, tokens, kind_letters(events, tokens)


def test_a_vllm_completion_has_its_usage_in_an_event_without_choices():
    events, tokens, kinds = read(completion("a") | {"usage": None}, completion("b", finish_reason="length"),
                                 {"choices": []} | usage(2, prompt_tokens_details={"cached_tokens": 1})
                                 | {"metrics": {"queue_time_ms": 0.25, "mean_itl_ms": None}})  # fmt: skip
    assert kinds == "ttu"
    assert tokens == [1, 1, 0]
    assert events[1].finish == "length"
    assert events[2].usage == Usage(prompt_tokens=3, completion_tokens=2, cached_tokens=1)
    assert events[2].server == {"metrics": {"queue_time_ms": 0.25}}


def test_token_ids_are_counted_and_an_empty_text_with_ids_is_a_text_event():
    _, tokens, kinds = read(completion("", token_ids=[9, 9]), completion("ü", token_ids=[9]), completion(token_ids=[]))
    assert (kinds, tokens) == ("tte", [2, 1, 0])


@pytest.mark.parametrize("late", [{"choices": []}, completion()])
@pytest.mark.parametrize("stated", [{}, {"completion_tokens": None}, {"total_tokens": 5}])
def test_a_usage_that_states_nothing_takes_none_back(late, stated):
    events, tokens, _ = read(completion("a"), completion("b"), {"choices": []} | usage(2), late | {"usage": stated})
    assert [event.usage for event in events if event.usage] == [Usage(prompt_tokens=3, completion_tokens=2)]
    assert tokens[:3] == [1, 1, 0]


def test_a_llama_server_completion_has_usage_and_timings_in_its_finish_event():
    events, tokens, kinds = read(
        completion("a"), completion("bc"), completion(finish_reason="length") | usage(3) | timings(3)
    )
    assert kinds == "tte"
    assert tokens is None  # two text events, three tokens: which brought two is not said
    assert events[2].usage.completion_tokens == 3
    assert events[2].server["timings"]["predicted_n"] == 3


def test_running_timings_tell_how_many_tokens_an_event_brought():
    _, tokens, kinds = read(completion("a") | timings(1), completion("bc") | timings(4),
                            completion(finish_reason="length") | timings(4) | usage(4))  # fmt: skip
    assert (kinds, tokens) == ("tte", [1, 3, 0])


def test_a_finish_event_that_brings_held_back_tokens_is_a_text_event():
    assert read(completion("a") | timings(1), completion(finish_reason="length") | timings(3))[1:] == ([1, 2], "tt")


def test_continuous_usage_tells_how_many_tokens_an_event_brought():
    _, tokens, kinds = read(chat(role="assistant", content="") | usage(0), chat(content="a") | usage(2),
                            chat(content="b") | usage(3), {"choices": []} | usage(3))  # fmt: skip
    assert (kinds, tokens) == ("rttu", [0, 2, 1, 0])


def test_a_total_on_the_role_chunk_belongs_to_the_text_behind_it():
    _, tokens, kinds = read(chat(role="assistant", content=None) | timings(1), chat(content="a") | timings(1))
    assert (kinds, tokens) == ("rt", [0, 1])


def test_a_running_total_that_falls_is_not_believed():
    assert read(completion("a") | timings(2), completion("b") | timings(1))[1] is None


def test_one_token_each_is_assumed_only_when_the_numbers_agree():
    assert read(completion("a"), completion("b"), {"choices": []} | usage(2))[1] == [1, 1, 0]
    assert read(completion("a"), completion("b"), {"choices": []} | usage(5))[1] is None
    assert read(completion("a"), completion("b"))[1] is None


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_reasoning_is_text_of_its_own_kind(key):
    events, _, kinds = read(
        chat(role="assistant"), chat(**{key: "hm", "content": None}), chat(content="yes"), chat("stop")
    )
    assert kinds == "rkte"
    assert [event.text for event in events] == ["", "", "yes", ""]


def test_a_first_chunk_with_role_and_text_is_text():
    assert read(chat(role="assistant", content="a"))[2] == "t"


@pytest.mark.parametrize("error", [{"error": {"message": "KV full", "code": 500}}, {"error": "KV full"},
                                   {"object": "error", "message": "KV full"}])  # fmt: skip
def test_an_error_under_200_is_a_failure_with_the_servers_words(error):
    event = parse(json.dumps(error))
    assert (event.kind, event.failure.kind) == ("x", "error-event")
    assert "KV full" in event.failure.message


@pytest.mark.parametrize("payload", ['{"choices": [', "12", '["a"]', "[" * 100_000, "[done]", "1" * 5000])
def test_what_is_no_json_object_is_a_protocol_failure(payload):
    event = parse(payload)
    assert (event.kind, event.failure.kind) == ("x", "protocol")
    assert len(event.failure.message) <= MESSAGE_ROOM


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_an_error_nested_deeper_than_can_be_written_again_is_a_protocol_failure(opened, closed):
    event = parse('{"error":' + opened * 1000 + "1" + closed * 1000 + "}")
    assert (event.kind, event.failure.kind) == ("x", "protocol")
    assert len(event.failure.message) <= MESSAGE_ROOM


@pytest.mark.parametrize("payload", ["null", "", " ", "{}", '{"choices": []}', '{"type": "ping"}'])
def test_payloads_that_say_nothing_are_no_events(payload):
    assert parse(payload) is None


def test_done_is_known_with_spaces_around_it():
    assert parse(" [DONE] ") == Event("d")


def test_counts_of_a_wrong_type_are_absent():
    for wrong in (-1, "3", 1.5, True, None, 10**30):
        assert read({"choices": []} | usage(wrong))[0][0].usage.completion_tokens is None
    wild = '{"choices": [], "timings": {"a": NaN, "b": 1e999, "c": 2, "d": "x", "e": {}, "\\ud800": 1}}'
    assert parse(wild).server == {"timings": {"c": 2, "\ufffd": 1}}


def test_halves_of_surrogate_pairs_join_or_become_replacement_characters():
    assert clean("\ud83d" + "\ude80") == "🚀"
    assert clean("a\ud83d") == "a\ufffd"
    assert clean("abc", 2) == "ab"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "delta", "text", "content", "usage", "timings", "completion_tokens", "predicted_n",
                         "meta_info", "output_ids", "token_ids", "finish_reason", "error", "role", "prompt_tokens_details"]), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(st.lists(JSON, max_size=4))
def test_no_json_whatever_breaks_the_reading(payloads):
    events, tokens, kinds = read(*payloads)
    assert len(kinds) == len(events)
    assert tokens is None or (len(tokens) == len(events) and min(tokens, default=0) >= 0)
    for event in events:
        json.dumps([event.text, event.finish, event.server], allow_nan=False).encode()


@given(text=st.text(), number=st.one_of(st.integers(), st.floats()), more=st.dictionaries(st.text(), st.text()))
def test_the_quick_reader_and_the_standard_one_say_the_same(text, number, more):
    body = (
        completion(**({"text": text} | more | {"finish_reason": text}))
        | usage(number)
        | {"timings": {"predicted_n": number, text: number}}
    )
    payload = json.dumps(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("genreport.dialect.orjson.loads", json.JSONDecoder(parse_constant=lambda _: None).decode)
        told = parse(payload)
    assert parse(payload) == told
