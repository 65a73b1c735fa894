"""Streams that made load tools report something else than what happened, each with what is right.

The payloads are composed from the public descriptions of the dialects; the server is a real socket whose own clock says
when each piece was written. T1 to T13 are the cases of that number; what belongs to the figures of a whole round is
tested on a composed round.
"""

import asyncio
import gzip
import itertools
import json
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compose import compose_round, sweep
from fault_server import chunk, serving, sse
from genreport.client import Call, Client, Clock, Exchange
from genreport.evaluate import Evidence, recompute
from genreport.figures import compute
from genreport.figures.frames import table
from genreport.load import open_loop
from genreport.plan.engines import EngineEntry
from genreport.records import TEXT_KINDS, Failure
from genreport.wire import Wire

pytestmark = pytest.mark.anyio


def text(content, **more):
    return {"choices": [{"index": 0, "text": content, "finish_reason": None, **more}]}


def delta(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage(n, choices=(), **more):
    return {"choices": list(choices), "usage": {"prompt_tokens": 3, "completion_tokens": n, **more}}


STOP = {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}
REFUSED = b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"


def call(index=0, asked_output=512, body=None):
    return Call(
        index=index,
        seed=7,
        body={"prompt": [1, 2, 3]} if body is None else body,
        asked_input=3,
        asked_output=asked_output,
    )


async def observe(script, body=None, **options):
    """One request to a script: its record and the peer that served it."""
    async with serving(script) as server, Client(server.url, **{"stall_s": 5, **options}) as client:
        return await client.complete(call(body=body), Clock(0)), server.peers


def streamed(*payloads, extra=b"", pause_s=0.0):
    """A script that sends these payloads, each in a write of its own where it pauses between them."""

    async def script(peer):
        await peer.start(extra)
        for payload in payloads:
            await peer.event(payload)
            await asyncio.sleep(pause_s)
        await peer.end()

    return script


def replayed(*pieces: bytes, status=200):
    """The record of an answer whose pieces came in these reads, a millisecond apart, without a network."""
    seen = Exchange(call(), Clock(0))
    seen.sent_us, seen.status = [0], status
    for place, piece in enumerate(pieces, 1):
        seen.take(1000 * place, piece)
    seen.end_us = 1000 * len(pieces)
    return seen.record()


def body_of(*payloads) -> bytes:
    return b"".join(map(sse, payloads))


def first_text_us(record) -> int:
    """From sending to the first text event."""
    place = next(place for place, kind in enumerate(record.kinds) if kind in TEXT_KINDS)
    return sum(record.gaps_us[: place + 1])


def row(*records):
    """The first record as the figures see it."""
    return table("requests.jsonl", list(records)).rows.iloc[0]


# T1


async def test_t1_a_role_chunk_is_a_stamp_of_its_own_and_not_the_first_token():
    async def role_first(peer):
        await peer.start()
        await asyncio.sleep(0.01)
        await peer.event(delta(role="assistant", content=""))
        await asyncio.sleep(0.19)
        await peer.event(delta(content="Hello"))
        await peer.end(delta("stop"), usage(1), "[DONE]")

    record, (peer,) = await observe(role_first, body={"messages": []})
    assert record.kinds == "rteud"
    _, role, content, _ = peer.wrote_us
    assert 0 <= record.t0_us + record.gaps_us[0] - role < 50_000
    assert 0 <= record.t0_us + first_text_us(record) - content < 50_000
    assert first_text_us(record) >= 195_000
    assert row(record).first_choices_s < 0.15 + record.t0_us / 1e6


# T2


async def test_t2_tokens_come_from_the_server_and_not_from_chunks_under_speculation():
    sizes = [4, 3] * 20
    counted = itertools.accumulate(sizes)
    record, _ = await observe(streamed(*(text("abcd"[:k]) | usage_only(n) for k, n in zip(sizes, counted, strict=True)),
                                       STOP | usage_only(140), "[DONE]"))  # fmt: skip
    assert record.usage.completion_tokens == 140
    assert (record.kinds, sum(record.tokens)) == ("t" * 40 + "ed", 140)
    assert record.tokens[:40] == sizes
    silent, _ = await observe(streamed(*[text("abcd")] * 40, usage(140), "[DONE]"))
    assert silent.tokens is None  # which chunk held how many is not known, and is not made up
    assert row(silent).n == 140
    for seen in (table("requests.jsonl", [each]) for each in (record, silent)):
        text_s = (seen.text_s[0], seen.text_s[-1])
        assert seen.tpot_s.values == pytest.approx([(text_s[1] - text_s[0]) / 139])
        assert len(seen.gap_s) == 39  # of chunks, whatever they hold
    assert len(table("requests.jsonl", [record]).itl_s) == 140 - 4  # a sample a token behind the first chunk


def usage_only(n):
    return {"usage": {"prompt_tokens": 3, "completion_tokens": n}}


# T3


async def test_t3_usage_may_be_null_on_each_chunk_and_come_behind_the_text():
    null = {"usage": None}
    record, _ = await observe(streamed(text("a") | null, text("b") | null, STOP | null, usage(2), "[DONE]"))
    assert (record.failure, record.kinds, record.tokens) == (None, "tteud", [1, 1, 0, 0, 0])
    assert row(record).n == 2


async def test_t3_the_text_ends_with_the_last_text_event_and_not_with_done():
    async def late_done(peer):
        await peer.start()
        await peer.event(text("a"), text("b"))
        await asyncio.sleep(0.1)
        await peer.end(usage(2), "[DONE]")

    record, _ = await observe(late_done)
    seen = table("requests.jsonl", [record])
    assert max(seen.text_s) < record.end_us / 1e6 - 0.09


# T4


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_t4_reasoning_is_generated_text_but_not_the_answers(key):
    thoughts = [delta(**{key: word, "content": None}) for word in ("I ", "think")]
    record, _ = await observe(
        streamed(delta(role="assistant", content=""), *thoughts, delta("length"), usage(2), "[DONE]", pause_s=0.005)
    )
    assert (record.failure, record.kinds, record.tokens) == (None, "rkkeud", [0, 1, 1, 0, 0, 0])
    assert "t" not in record.kinds  # so the time to the first token of the answer is not there, and not 0
    assert record.text == ""
    assert (row(record).ok, row(record).n) == (True, 2)
    assert table("requests.jsonl", [record]).ttft_s.values == pytest.approx([first_text_us(record) / 1e6])
    assert record.gaps_us[0] < first_text_us(record)  # the role chunk came before


# T5


async def test_t5_an_answer_of_one_token_has_a_first_token_and_no_time_per_token():
    record, _ = await observe(streamed(text("x", finish_reason="length"), usage(1), "[DONE]"))
    assert (record.failure, record.kinds, row(record).n) == (None, "tud", 1)
    assert first_text_us(record) > 0


# T6

MIXED = (
    b": ping\r\n\r\nevent: message\r\nid: 7\r\nretry: 10\r\n"
    + b'data:{"choices":[{"delta":{"role":"assistant","content":""}}]}\r\n\r\n'
    + 'data: {"choices":[{"delta":{"content":"grüße 🚀"}}]}\n\n'.encode()
    + 'data:{"choices":[{"delta":{"content":"日本"},"finish_reason":"stop"}]}\r\r'.encode()
    + b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":9}}\n\ndata: [DONE]\n\n'
)


def without_stamps(record):
    return record.model_dump(exclude={"gaps_us", "end_us"})


def test_t6_the_parse_does_not_depend_on_where_bytes_are_cut():
    whole = replayed(MIXED)
    assert (whole.failure, whole.kinds, whole.text) == (None, "rttud", "grüße 🚀日本")
    for at in range(len(MIXED) + 1):
        assert without_stamps(replayed(MIXED[:at], MIXED[at:])) == without_stamps(whole)
    assert without_stamps(replayed(*(MIXED[k : k + 1] for k in range(len(MIXED))))) == without_stamps(whole)


def test_t6_an_event_has_the_stamp_of_the_read_that_completed_it():
    at = MIXED.index("🚀".encode()) + 2  # within a character
    record = replayed(MIXED[:at], MIXED[at:])
    assert list(itertools.accumulate(record.gaps_us)) == [1000, 2000, 2000, 2000, 2000]


# T7


@pytest.mark.parametrize("tail", [("[DONE]",), ()])
async def test_t7_an_error_within_a_stream_fails_the_request_and_its_tokens_are_in_no_throughput(tail):
    error = {"error": {"message": "engine core died", "type": "InternalServerError", "code": 500}}
    record, _ = await observe(streamed(*[text("a")] * 5, error, *tail))
    assert (record.failure.kind, record.failure.status) == ("error-event", 200)
    assert "engine core died" in record.failure.message
    assert record.kinds.startswith("tttttx")
    assert not row(record).ok


# T8


@pytest.mark.parametrize("payloads", [(), ("[DONE]",), (delta(role="assistant", content=""), delta("stop"), "[DONE]"),
                                      (usage(0), "[DONE]"), (": ping\n\n",)])  # fmt: skip
async def test_t8_an_empty_stream_under_200_is_a_failure(payloads):
    sent = [payload.encode() if isinstance(payload, str) and payload[0] == ":" else payload for payload in payloads]
    record, _ = await observe(streamed(*sent))
    assert record.failure.kind == "empty"
    assert not row(record).ok


# T10


async def test_t10_an_answer_that_ends_early_without_usage_has_no_made_up_length():
    record, _ = await observe(streamed(*[text("word ")] * 43, STOP, "[DONE]"))
    assert (record.failure, record.finish, record.usage, record.tokens) == (None, "stop", None, None)
    assert math.isnan(row(record).n)  # neither 43 chunks nor the 512 that were asked for


async def test_t10_token_ids_are_enough_to_know_the_length():
    record, _ = await observe(streamed(*[text("word ", token_ids=[5])] * 43, STOP, "[DONE]"))
    assert (row(record).n, record.asked_output) == (43, 512)


# T13


async def test_t13_events_of_one_read_are_visible_as_gaps_of_zero():
    record, _ = await observe(streamed(body_of(*[text("a")] * 10), STOP, usage(10), "[DONE]", pause_s=0.01))
    assert record.gaps_us[1:10] == [0] * 9
    assert record.tokens[:10] == [1] * 10


# what real servers do


async def test_text_held_back_for_a_character_counts_with_the_event_that_brings_it():
    held = [text("a", token_ids=[1]), text("", token_ids=[2]), text("ü", token_ids=[3, 4]), STOP]
    record, _ = await observe(streamed(*held, usage(4), "[DONE]"))
    assert (record.kinds, record.tokens, record.text) == ("ttteud", [1, 1, 2, 0, 0, 0], "aü")


async def test_several_tokens_of_one_event_are_told_by_a_running_total():
    timings = [{"timings": {"predicted_n": n}} for n in (1, 3, 3)]
    record, _ = await observe(
        streamed(text("a") | timings[0], text("ü") | timings[1], STOP | timings[2] | usage_only(3))
    )
    assert (record.failure, record.kinds, record.tokens) == (None, "tte", [1, 2, 0])


async def test_usage_is_found_in_the_finish_event_in_one_of_its_own_or_is_missing():
    last = text("b", finish_reason="length")
    within, _ = await observe(streamed(text("a"), last | usage_only(2), "[DONE]"))
    apart, _ = await observe(streamed(text("a"), last, usage(2, prompt_tokens_details={"cached_tokens": 1}), "[DONE]"))
    never, _ = await observe(streamed(text("a"), last, "[DONE]"))
    assert [record.failure for record in (within, apart, never)] == [None] * 3
    assert (within.usage.completion_tokens, within.kinds) == (2, "ttd")
    assert (apart.usage.completion_tokens, apart.usage.cached_tokens, apart.kinds) == (2, 1, "ttud")
    assert (never.usage, never.tokens) == (None, None)


async def test_null_data_and_unknown_objects_are_no_events():
    record, _ = await observe(streamed("null", text("a"), "null", {"type": "ping"}, STOP, usage(1), "[DONE]"))
    assert (record.failure, record.kinds) == (None, "teud")


async def test_choices_of_nulls_break_nothing():
    odd = [{"choices": [None]}, {"choices": None}, {"choices": [{"delta": None}]}, {"choices": [{"text": None}]}]
    record, _ = await observe(streamed(*odd, text("a"), STOP, "[DONE]"))
    assert (record.failure, record.kinds) == (None, "eeeted")


async def test_a_connection_announced_as_kept_and_closed_is_noticed_before_it_is_used():
    async def announce_and_close(peer):
        await peer.start(b"Connection: keep-alive\r\nKeep-Alive: timeout=5, max=100\r\n")
        await peer.end(text("a"), STOP, "[DONE]")
        peer.writer.close()

    async with serving(announce_and_close) as server, Client(server.url, stall_s=5) as client:
        for index in range(5):
            record = await client.complete(call(index), Clock(0))
            assert (record.failure, record.retries) == (None, 0)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refusal_with_retry_after_is_a_failure_that_keeps_the_headers_value(status):
    async def refuse(peer):
        head = (
            b"HTTP/1.1 %d No\r\nRetry-After: 7\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n" % status
        )
        await peer.send(head, b'{"error":"busy"}')

    record, peers = await observe(refuse)
    assert (record.failure.kind, record.failure.status, record.failure.retry_after) == ("http", status, "7")
    assert record.failure.message == '{"error":"busy"}'
    assert (len(peers), record.retries) == (1, 0)  # sent once


async def test_a_retry_after_is_cut_and_redacted_like_any_text_of_a_server():
    async def refuse(peer):
        await peer.send(b"HTTP/1.1 503 No\r\nRetry-After: " + b"s" * 5000 + b"\r\nContent-Length: 0\r\n\r\n")

    record, _ = await observe(refuse)
    shown = record.published(lambda value: value.replace("s", "t") if isinstance(value, str) else value)
    assert shown.failure.retry_after == "t" * 100


async def test_a_redirect_is_recorded_with_where_it_leads_and_not_followed():
    async def elsewhere(peer):
        await peer.send(b"HTTP/1.1 308 Moved\r\nLocation: https://else.where/v1\r\nContent-Length: 4\r\n\r\nGone")

    record, peers = await observe(elsewhere)
    assert (record.failure.kind, record.failure.status, len(peers)) == ("http", 308, 1)
    assert record.failure.message == "redirects to https://else.where/v1; Gone"


async def test_a_line_of_a_hundred_megabytes_is_given_up_early_and_in_little_memory():
    taken = 0

    async def pour(peer):
        nonlocal taken
        await peer.start()
        await peer.event(text("a"))
        piece = chunk(b"x" * (1 << 16))
        await peer.send(chunk(b"data: "))
        while taken < 100 << 20:
            await peer.send(piece)
            taken += 1 << 16

    tracemalloc.start()
    try:
        record, _ = await observe(pour)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert record.failure.kind == "protocol"
    assert "line is far too long" in record.failure.message
    assert (record.kinds, taken < 30 << 20, peak < 60 << 20) == ("t", True, True)


async def test_a_long_line_that_is_no_longer_than_a_line_may_be_is_read():
    record, _ = await observe(streamed(text("y" * (3 << 20)), STOP, "[DONE]"))
    assert (record.failure, record.kinds) == (None, "ted")


async def test_a_stream_whose_lines_end_in_a_carriage_return_alone_is_no_long_line():
    word = body_of(text("x" * 100_000)).replace(b"\n", b"\r")
    record, _ = await observe(streamed(*[word] * 60, body_of(STOP, "[DONE]").replace(b"\n", b"\r")))
    assert (record.failure, record.kinds) == (None, "t" * 60 + "ed")


async def test_a_small_answer_that_unpacks_to_a_huge_one_is_given_up_in_little_memory():
    packed = gzip.compress((b": %b\n" % (b"x" * 997)) * 50_000)

    async def bomb(peer):
        await peer.send(
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed), packed
        )

    tracemalloc.start()
    try:
        record, _ = await observe(bomb, answer_bytes=1 << 20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (record.failure.kind, record.kinds, peak < 20 << 20) == ("protocol", "", True)
    assert "answer is far too long" in record.failure.message


async def test_an_event_of_a_compressed_answer_has_the_stamp_of_its_read():
    packed = gzip.compress(body_of(*[text("a", pad=str(k) * 40) for k in range(3000)], STOP, "[DONE]"), 0)
    half = len(packed) // 2

    async def zipped(peer):
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        await peer.send(head, packed[:half])
        await asyncio.sleep(0.1)
        await peer.send(packed[half:])

    record, _ = await observe(zipped)
    assert (record.failure, record.kinds) == (None, "t" * 3000 + "ed")
    assert sum(record.gaps_us[1300:1700]) > 50_000


async def test_a_gzip_answer_is_read_though_it_was_not_asked_for():
    async def zipped(peer):
        packed = gzip.compress(body_of(text("a"), text("b"), STOP, usage(2), "[DONE]"))
        await peer.start(b"Content-Encoding: gzip\r\n")
        await peer.send(*(chunk(packed[at : at + 9]) for at in range(0, len(packed), 9)), b"0\r\n\r\n")

    record, (peer,) = await observe(zipped)
    assert (record.failure, record.kinds, record.tokens) == (None, "tteud", [1, 1, 0, 0, 0])
    assert "accept-encoding: identity" in peer.head.lower()


@pytest.mark.parametrize(
    "told", [b"Content-Type: Text/Event-Stream; Charset=UTF-8\r\n", b"CONTENT-ENCODING: Identity\r\n"]
)
async def test_media_types_and_codings_are_read_in_any_case(told):
    async def loud(peer):
        await peer.send(b"HTTP/1.1 200 OK\r\n%bTransfer-Encoding: chunked\r\n\r\n" % told)
        await peer.end(text("a"), STOP, usage(1), "[DONE]")

    record, _ = await observe(loud)
    assert (record.failure, record.kinds) == (None, "teud")


async def test_a_stream_of_json_lines_is_known_in_any_case():
    async def lines(peer):
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/X-NDJSON\r\nTransfer-Encoding: chunked\r\n\r\n")
        await peer.end(b'{"response":"a","done":false}\n', b'{"response":"","done":true,"eval_count":1}\n')

    record, _ = await observe(lines, body={"raw": True})
    assert (record.failure, record.kinds) == (None, "te")


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"])  # fmt: skip
async def test_an_answer_may_be_ended_by_closing_the_connection(head):
    async def delimited(peer):
        await peer.send(head, body_of(text("a"), STOP))
        await peer.send(body_of(usage(1), "[DONE]"))
        peer.writer.close()

    async with serving(delimited) as server, Client(server.url, stall_s=5) as client:
        records = [await client.complete(call(index), Clock(0)) for index in range(2)]
        assert [(record.failure, record.kinds, record.retries) for record in records] == [(None, "teud", 0)] * 2
        assert server.connections == 2


async def test_a_closed_connection_without_done_or_a_reason_is_no_end():
    async def cut(peer):
        await peer.send(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", body_of(text("a")))
        peer.writer.close()

    assert (await observe(cut))[0].failure.kind == "stream"


def sized(body):
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.mark.parametrize("behind", [sized(body_of(text("c"), "[DONE]")), REFUSED, b"HTTP/1.1 1"])
@pytest.mark.parametrize("apart", [False, True])
async def test_a_second_answer_behind_the_first_is_nobodys_and_its_connection_is_not_used_again(behind, apart):
    async def twice(peer):
        first = sized(body_of(text("a"), text("b"), STOP, usage(2), "[DONE]"))
        await peer.send(first, b"" if apart else behind)
        if apart:
            await read.wait()
            await peer.send(behind)
            read.clear()
        said.set()

    read, said = asyncio.Event(), asyncio.Event()
    async with serving(twice) as server, Client(server.url, stall_s=5) as client:
        for index in range(2):
            record = await client.complete(call(index), Clock(0))
            assert (record.failure, record.kinds, record.text) == (None, "tteud", "ab")
            assert record.usage.completion_tokens == 2
            read.set()
            await said.wait()
            said.clear()
            await asyncio.sleep(0.01)  # what was said is read meanwhile
        assert server.connections == 2


@pytest.mark.parametrize(("said", "stays", "kind", "message"), [
    (REFUSED, True, "http", "busy"),
    (REFUSED, False, "http", "busy"),
    (b"", False, "stream", "DiedUnanswered: closed without an answer after 0.000 s"),
])  # fmt: skip
async def test_what_a_server_says_before_the_request_is_its_answer(said, stays, kind, message, monkeypatch):
    opened = Wire._opened

    async def slowly(self, *what):
        line = await opened(self, *what)
        await asyncio.sleep(0.02)  # so long the request is not sent
        return line

    async def speak(reader, writer):
        writer.write(said)
        if stays:
            await reader.read()
        writer.close()

    monkeypatch.setattr(Wire, "_opened", slowly)
    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        address, port = server.sockets[0].getsockname()
        async with Client(f"http://{address}:{port}", stall_s=5) as client:
            records = [await client.complete(call(index), Clock(0)) for index in range(2)]
        await asyncio.sleep(0.02)  # the server ends its side
    assert [(record.failure.kind, record.failure.message) for record in records] == [(kind, message)] * 2


@pytest.mark.parametrize("headers", [b"", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"])
async def test_a_server_that_switches_protocols_is_told_as_such(headers):
    async def switch(peer):
        await peer.send(b"HTTP/1.1 101 Switching\r\n%b\r\n\x81\x02hi" % headers)

    record, _ = await observe(switch)
    assert (record.failure.kind, record.failure.message) == (
        "protocol",
        "RemoteProtocolError: it switches to another protocol",
    )


@pytest.mark.parametrize("status", [b"000", b"099"])
async def test_a_status_below_100_is_a_protocol_failure_whatever_comes_behind_it(status):
    async def odd(peer):
        await peer.send(b"HTTP/1.1 %b \r\nContent-Length: 2\r\n\r\nxx" % status, REFUSED)
        peer.writer.close()

    record, _ = await observe(odd)
    assert (record.failure.kind, record.failure.status, record.kinds) == ("protocol", None, "")
    assert record.failure.message == f"RemoteProtocolError: {status.decode()} is no status"


@pytest.mark.parametrize(("body", "path"), [
    ({"prompt": "x"}, "/v1/completions"), ({"messages": []}, "/v1/chat/completions"),
    ({"inputs": "x", "parameters": {}}, "/generate_stream"), ({"text": "x", "sampling_params": {}}, "/generate"), ({"prompt": "x", "raw": True}, "/api/generate"),
])  # fmt: skip
async def test_a_body_goes_to_the_endpoint_of_its_dialect(body, path):
    record, (peer,) = await observe(streamed(text("a"), STOP, "[DONE]"), body=body)
    assert record.failure is None
    assert peer.head.startswith(f"POST {path} HTTP/1.1")


def tool(**function):
    return delta(tool_calls=[{"index": 0, "id": "call_1", "type": "function", "function": function}])


async def test_a_piece_of_a_tool_call_is_a_text_event_without_text():
    pieces = [
        tool(name="weather", arguments=""),
        tool(arguments='{"city"'),
        tool(arguments=': "Bern"}'),
        tool(arguments=""),
    ]
    record, _ = await observe(
        streamed(delta(role="assistant", content=None), *pieces, delta("tool_calls"), usage(3), "[DONE]")
    )
    assert (record.failure, record.kinds, record.tokens) == (None, "rtttee" + "ud", [0, 1, 1, 1, 0, 0, 0, 0])
    assert (record.text, record.finish) == ("", "tool_calls")


async def test_a_refusal_and_an_old_function_call_are_generated_as_well():
    told = [delta(refusal="I cannot"), delta(function_call={"name": "f", "arguments": "{}"})]
    record, _ = await observe(streamed(*told, delta("stop"), usage(2), "[DONE]"))
    assert (record.failure, record.kinds) == (None, "tteud")


@pytest.mark.parametrize("n", [2, "1", True])
def test_more_than_one_answer_a_request_is_refused_in_the_plan(n):
    with pytest.raises(ValueError, match="n must be 1"):
        EngineEntry(id="a", kind="vllm", model="m", url="http://localhost:1", sampling={"n": n})


# whatever comes

PIECES = [
    b"data: ", b"data:", b"\n", b"\r\n", b"\r", b"\n\n", b": ping\n\n", b"[DONE]", b"null", b"{}", "ü🚀".encode(), b"\xff",
    *(json.dumps(each).encode() for each in (
        text("a"), text("", token_ids=[1, 2]), delta(role="assistant"), delta(content="b"), delta(reasoning="c"), tool(name="f"),
        STOP, usage(2), {"error": "no"}, {"token": {"id": 1, "text": "t", "special": False}},
        {"token": {"id": 2}, "details": {"finish_reason": "length", "generated_tokens": 2}},
        {"text": "g", "meta_info": {"completion_tokens": 1, "finish_reason": None}},
        {"text": "gh", "output_ids": [1, 2], "meta_info": {"completion_tokens": 2, "finish_reason": {"type": "length"}}},
        {"response": "o", "done": False}, {"response": "", "done": True, "eval_count": 1, "eval_duration": 5},
    )),
]  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.lists(st.integers(0, 2000), max_size=12))
def test_no_stream_breaks_the_reading_and_no_cut_changes_it(pieces, cuts):
    stream = b"".join(pieces)
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    record = replayed(*(stream[a:b] for a, b in itertools.pairwise(edges)))
    assert without_stamps(record) == without_stamps(replayed(stream))
    assert len(record.gaps_us) == len(record.kinds)
    assert min(record.gaps_us, default=0) >= 0
    assert type(record).model_validate_json(record.model_dump_json()) == record


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_bytes_break_the_reading(stream, cut):
    assert without_stamps(replayed(stream[:cut], stream[cut:])) == without_stamps(replayed(stream))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9))
def test_the_bytes_of_an_answer_may_be_cut_at_any_stride(stride, count):
    stream = body_of(delta(role="assistant"), *[delta(content="日")] * count, delta("stop"), usage(count), "[DONE]")
    record = replayed(*(stream[at : at + stride] for at in range(0, len(stream), stride)))
    assert record.kinds == "r" + "t" * count + "eud"
    assert record.tokens[1 : count + 1] == [1] * count
    assert record.text == "日" * count


# of a whole round


def trouble(text_of):
    """Changes each measured record of the baseline's c4."""

    def alter(key, request):
        return text_of(request) if "/vllm-bf16/c4/" in key and not request.warmup else request

    return alter


def flags(figures, level):
    return {flag.kind for flag in figures.flags if flag.scope == level}


def test_t9_a_level_in_which_all_failed_has_no_latency_and_says_why(tmp_path):
    dead = Failure(kind="http", status=503, message="busy", retry_after="1")
    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, 4),), failures=lambda *_: dead))
    for name in ("ttft.p50", "ttft.p99", "tpot.p50", "itl.p99", "e2el.p50"):
        figure = figures.ledger[f"concurrency.vllm-bf16.c4.{name}"]
        assert figure.value is None
        assert figure.reason
    assert "failed" in flags(figures, "concurrency.vllm-bf16.c4")


def test_t2_a_level_under_speculation_is_flagged_and_no_gap_is_taken_for_a_token(tmp_path):
    def speculated(request):
        """Sixteen tokens in four chunks, and only the total told."""
        gaps, kinds = [request.gaps_us[0], *[70_000] * 3, 30, 0], "ttttud"
        end_us = request.t0_us + sum(gaps) + 40
        return request.model_copy(update={"gaps_us": gaps, "kinds": kinds, "tokens": None, "end_us": end_us})

    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, 4),), alter=trouble(speculated)))
    at, other = "concurrency.vllm-bf16.c4", "concurrency.vllm-bf16.c1"
    assert figures.ledger[f"{at}.tokens_per_event"].value == 4
    assert f"{other}.tokens_per_event" not in figures.ledger
    assert ("several" in flags(figures, at), "several" in flags(figures, other)) == (True, False)
    assert figures.ledger[f"{at}.tpot.p50"].value == pytest.approx(3 * 0.07 / 15)
    assert figures.ledger[f"{at}.itl.p50"].value == figures.ledger[f"{at}.gap.p50"].value == pytest.approx(0.07)
    assert "tokens_per_event_unknown" in figures.ledger[f"{at}.itl.p50"].notes
    assert recomputed(figures, f"{at}.tokens_per_event") == 4


def test_t5_answers_of_one_token_are_judged_on_their_other_limits(tmp_path):
    def limits(ttft_ms):
        return [{"id": "a", "figure": "tpot", "below_ms": 0.001}, {"id": "b", "figure": "ttft", "below_ms": ttft_ms}]

    for ttft_ms, good in ((1000, 8), (1, 0)):
        path = tmp_path / f"r{ttft_ms}"
        figures = compute(compose_round(path, tests=(sweep(1, output=1),), repeats=1, slos=limits(ttft_ms)))
        at = "concurrency.vllm-bf16.c1"
        assert figures.ledger[f"{at}.r1.good_requests"].value == good
        assert figures.ledger[f"{at}.ttft.p50"].value > 0
        assert figures.ledger[f"{at}.tpot.p50"].value is None
        assert figures.ledger[f"{at}.tpot.p50"].reason
        assert figures.ledger[f"{at}.output_throughput"].value > 0


def short(which):
    """Leaves of these answers the first token alone."""

    def alter(_, request):
        if not which(request.index):
            return request
        usage = request.usage.model_copy(update={"completion_tokens": 1})
        told = {"gaps_us": [request.gaps_us[0], 30, 0], "kinds": "tud", "tokens": [1, 0, 0], "usage": usage}
        return request.model_copy(update=told | {"end_us": request.t0_us + request.gaps_us[0] + 40})

    return alter


TPOT_ALONE = [{"id": "a", "figure": "tpot", "below_ms": 30}]


def test_t5_answers_of_one_token_count_as_unjudged_where_tpot_alone_is_limited(tmp_path):
    round = compose_round(tmp_path / "r", tests=(sweep(1),), slos=TPOT_ALONE, alter=short(lambda index: index % 2))
    figures, at = compute(round), "concurrency.vllm-bf16.c1"
    good, unjudged = (figures.ledger[f"{at}.r1.{name}_requests"].value for name in ("good", "unjudged"))
    assert (good, unjudged) == (4, 4)
    assert figures.ledger[f"{at}.unjudged_requests"].value == 8
    windows = [figures.ledger[f"{at}.r{r}.window_s"].value for r in (1, 2)]
    assert figures.ledger[f"{at}.goodput"].value == pytest.approx(8 / sum(windows))
    assert "not_all_judged" in figures.ledger[f"{at}.goodput"].notes
    for id in (f"{at}.r1.good_requests", f"{at}.r1.unjudged_requests", f"{at}.goodput"):
        assert recomputed(figures, id) == pytest.approx(figures.ledger[id].value)


def test_t5_there_is_no_goodput_where_no_request_was_judged(tmp_path):
    round = compose_round(tmp_path / "r", tests=(sweep(1, output=1),), slos=TPOT_ALONE)
    figures, at = compute(round), "concurrency.vllm-bf16.c1"
    for id in (f"{at}.r1.good_requests", f"{at}.goodput"):
        assert figures.ledger[id].value is None
        assert figures.ledger[id].reason.startswith("no request was judged: the plan limits TPOT alone")
    assert figures.ledger[f"{at}.unjudged_requests"].value == 16
    assert recomputed(figures, f"{at}.r1.unjudged_requests") == 8


def test_t5_a_repeat_that_no_limit_judges_is_in_no_goodput(tmp_path):
    def alter(key, request):
        return short(lambda _: key.endswith("r2"))(key, request)

    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1),), slos=TPOT_ALONE, alter=alter))
    at = "concurrency.vllm-bf16.c1"
    assert figures.ledger[f"{at}.goodput"].value == figures.ledger[f"{at}.r1.goodput"].value
    assert figures.ledger[f"{at}.unjudged_requests"].value == 8


def test_t5_every_request_is_judged_where_another_latency_is_limited_too(tmp_path):
    slos = [*TPOT_ALONE, {"id": "b", "figure": "ttft", "below_ms": 1000}]
    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, output=1),), slos=slos))
    at = "concurrency.vllm-bf16.c1"
    assert figures.ledger[f"{at}.unjudged_requests"].value == recomputed(figures, f"{at}.r1.unjudged_requests") == 0
    assert figures.ledger[f"{at}.goodput"].value > 0
    assert figures.ledger[f"{at}.goodput"].notes == ()


def test_t5_without_token_counts_nobody_knows_what_was_judged(tmp_path):
    def alter(_, request):
        return request.model_copy(update={"usage": None, "tokens": None, "server": {}})

    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1),), slos=TPOT_ALONE, alter=alter))
    for name in ("good_requests", "unjudged_requests"):
        q = figures.ledger[f"concurrency.vllm-bf16.c1.r1.{name}"]
        assert (q.value, q.reason[:29]) == (None, "the server gave no token coun")


def recomputed(figures, id):
    """The value by the second path."""
    manifest = figures.ledger.manifest("r", {})
    known = {figure["id"]: figure for figure in manifest["figures"]}
    return recompute(known[id], Evidence(figures.round.bytes, manifest["columns"]), known)


def test_t11_prompts_that_were_cached_flag_their_level(tmp_path):
    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, 4),), prefix_hits=0.5))
    assert "prefix_cache" in flags(figures, "concurrency.vllm-bf16.c4")
    assert figures.ledger["concurrency.vllm-bf16.c4.prefix_hit_share"].value == pytest.approx(0.5, abs=0.05)


async def test_t12_a_wait_for_a_place_is_in_the_record_apart_from_the_answers_time():
    async def slow(peer):
        await peer.start()
        await asyncio.sleep(0.02)
        await peer.end(text("a"), STOP, usage(1), "[DONE]")

    records = []
    async with serving(slow) as server, Client(server.url, stall_s=5) as client:
        calls = [replace(call(index), due_us=0) for index in range(100)]
        await open_loop(client, calls, Clock(), records.append, max_in_flight=4)
    assert [record.failure for record in records] == [None] * 100
    seen = table("requests.jsonl", records)
    waits, without, with_it = (np.sort(column.values) for column in (seen.client_queue_s, seen.e2el_s, seen.due_e2el_s))
    assert waits[0] < 0.1
    assert waits[-1] > 24 * 0.02 * 0.9  # it waited for 24 others one after another
    assert without[-1] < waits[-1] < with_it[-1]
    starts, ends = (sorted(getattr(record, at) for record in records) for at in ("t0_us", "end_us"))
    assert all(start >= end for start, end in zip(starts[4:], ends, strict=False))  # never more than four at once


def test_t13_a_level_whose_events_come_in_bunches_is_flagged(tmp_path):
    def bunched(request):
        gaps = [gap if place % 8 == 0 else 0 for place, gap in enumerate(request.gaps_us)]
        return request.model_copy(update={"gaps_us": gaps})

    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, 4),), alter=trouble(bunched)))
    assert figures.ledger["concurrency.vllm-bf16.c4.coalesced_share"].value > 0.8
    assert "coalesced" in flags(figures, "concurrency.vllm-bf16.c4")
    assert "coalesced" not in flags(figures, "concurrency.vllm-bf16.c1")


def test_t7_tokens_that_came_before_an_error_are_in_no_throughput_and_in_no_latency(tmp_path):
    """Every second request of the second level broke off after all its tokens came."""

    def broke(request):
        if request.index % 2:
            return request
        failure = Failure(kind="error-event", status=200, message="engine core died")
        return request.model_copy(update={"kinds": request.kinds[:-2] + "xd", "failure": failure, "usage": None})

    whole, half = (
        compute(compose_round(tmp_path / name, tests=(sweep(1, 4),), repeats=1, **more))
        for name, more in (("whole", {}), ("half", {"alter": trouble(broke)}))
    )
    at = "concurrency.vllm-bf16.c4"
    assert (whole.ledger[f"{at}.output_tokens"].value, half.ledger[f"{at}.output_tokens"].value) == (16 * 16, 8 * 16)
    assert (half.ledger[f"{at}.completed"].value, half.ledger[f"{at}.failed"].value) == (8, 8)
    assert half.ledger[f"{at}.ttft.p50"].n == half.ledger[f"{at}.e2el.p50"].n == 8
    rate = half.ledger[f"{at}.output_throughput"].value / whole.ledger[f"{at}.output_throughput"].value
    assert rate == pytest.approx(0.5, rel=0.1)
    assert half.ledger[f"{at}.output_throughput"].value == recomputed(half, f"{at}.output_throughput")
