"""Events told by their likeness are those that reading in full gives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.alike import Alike
from genreport.client import Call, Clock, Exchange
from genreport.dialect import parse
from genreport.sse import Decoder


def event(text: str, ascii: bool = True, **more: object) -> bytes:
    body = {"id": "c-1", "choices": [{"index": 0, "text": text, "finish_reason": None}], **more}
    return f"data: {json.dumps(body, ensure_ascii=ascii)}\n\n".encode("utf-8", "surrogatepass")


def taught(text: str = "a", **more: object) -> Alike:
    alike, data = Alike(), event(text, **more)
    alike.learn(data, parse(Decoder().feed(data)[0]))
    return alike


@given(texts=st.lists(st.text(), min_size=2), ascii=st.booleans(), pieces=st.integers(1, 40))
def test_a_stream_reads_the_same_with_and_without_likeness(texts, ascii, pieces):
    whole = [event(text, ascii) for text in texts]
    joined = b"".join(whole)
    cut = [joined[place : place + pieces] for place in range(0, len(joined), pieces)]
    assert record(whole) == record(cut) == record([joined])


def record(reads: list[bytes]) -> tuple[object, ...]:
    exchange = Exchange(Call(index=0, seed=0, body={}, asked_input=1, asked_output=1), Clock(0))
    exchange.sent()
    for data in reads:
        exchange.take(0, data)
    read = exchange.record()
    return read.kinds, read.text, read.tokens, read.failure


def test_an_event_that_differs_in_its_text_alone_is_told_by_likeness():
    assert taught().texts([event("another"), event("one more")]) == ["another", "one more"]


@pytest.mark.parametrize(
    "data",
    [
        event('b"'), event("b\\"), event("b\n"), event(""), event("\ud800"), event("b", usage={"completion_tokens": 3}),
        event("b")[:-1], event("b") + event("c"), b"data: [DONE]\n\n", event("b", ascii=False).replace(b"b", b"\xff"),
    ],
)  # fmt: skip
def test_whatever_else_differs_is_read_in_full(data):
    assert taught().texts([event("b"), data]) is None


def test_a_text_that_stands_in_two_places_is_not_exchanged_in_the_wrong_one():
    alike = taught("c-1")
    assert alike.texts([event("d")]) is None


def test_a_stream_whose_events_differ_in_more_is_given_up():
    alike = Alike()
    for count in range(10):
        data = event("a", usage={"completion_tokens": count})
        alike.learn(data, parse(Decoder().feed(data)[0]))
    assert alike._tries == 0
