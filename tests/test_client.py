"""Against a server whose truth is known: on one machine, both ends read one clock."""

import asyncio
import gzip
import itertools
import json
import re
import shutil
import ssl
import subprocess

import httpx
import pytest

from fault_server import HEAD, chunk, serving, sse
from genreport.client import Call, Client, Clock
from genreport.records import MESSAGE_LIMIT, TEXT_LIMIT, Request

pytestmark = pytest.mark.anyio


def token(text, **more):
    return {"choices": [{"index": 0, "text": text, "finish_reason": None, **more}]}


def delta(finish=None, **delta):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def usage(n):
    return {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": n}}


FINISH = token("", finish_reason="length")


async def ok(peer):
    await peer.start()
    await peer.event(token("a"))
    await peer.end(token("b", finish_reason="length"), usage(2), "[DONE]")


def call(index=0, **body) -> Call:
    return Call(index=index, seed=7, body={"prompt": [1, 2, 3], **body}, asked_input=3, asked_output=2)


async def observe(*scripts, body=None, **options) -> tuple[Request, list]:
    """One request to these scripts, its stamps on the server's clock, and the server's peers."""
    async with serving(*scripts) as server, Client(server.url, **{"stall_s": 5, **options}) as client:
        return await client.complete(call(**(body or {})), Clock(0)), server.peers


def written(record: Request) -> Request:
    """The record as it stands in a file of a round in which nothing is to be hidden."""
    return record.published(lambda value: value)


def stamps(record: Request) -> list[int]:
    return list(itertools.accumulate(record.gaps_us, initial=record.t0_us))[1:]


async def test_a_whole_answer_is_recorded_with_the_body_as_given():
    record, (peer,) = await observe(ok, body={"temperature": 0})
    assert record.failure is None
    assert (record.kinds, record.tokens, record.text, record.finish) == ("ttud", [1, 1, 0, 0], "ab", "length")
    assert record.usage.completion_tokens == 2
    assert peer.body == {"prompt": [1, 2, 3], "temperature": 0}
    assert peer.head.startswith("POST /v1/completions HTTP/1.1")
    assert Request.model_validate_json(record.model_dump_json()) == record


async def test_stamps_lie_between_the_servers_writes_and_never_fall():
    async def paced(peer):
        await peer.start()
        for text in "abcde":
            await asyncio.sleep(0.01)
            await peer.event(token(text))
        await asyncio.sleep(0.01)
        await peer.end("[DONE]")

    record, (peer,) = await observe(paced)
    seen = stamps(record)
    assert record.t0_us <= peer.read_us
    assert all(gap >= 0 for gap in record.gaps_us)
    assert all(wrote <= stamp for wrote, stamp in zip(peer.wrote_us[1:], seen, strict=True))
    assert all(stamp <= later for stamp, later in zip(seen, peer.wrote_us[2:], strict=False))
    assert record.end_us == seen[-1]


async def test_a_role_chunk_is_not_the_first_token():
    async def role_first(peer):
        await peer.start()
        await peer.event(delta(role="assistant", content=""))
        await asyncio.sleep(0.06)
        await peer.end(delta("stop", content="a"), "[DONE]")

    record, (peer,) = await observe(role_first, body={"messages": []})
    assert peer.head.startswith("POST /v1/chat/completions")
    assert record.kinds == "rtd"
    assert record.gaps_us[1] >= 30_000


async def test_events_of_one_read_share_its_stamp_though_each_is_a_chunk():
    async def coalesced(peer):
        await peer.start()
        await asyncio.sleep(0.01)
        await peer.event(*(token(text) for text in "0123456789"))
        await asyncio.sleep(0.01)
        await peer.end(FINISH, "[DONE]")

    record, _ = await observe(coalesced)
    assert record.kinds == "t" * 10 + "ed"
    assert record.gaps_us[1:10] == [0] * 9
    assert record.gaps_us[10] > 0
    assert record.gaps_us[11] == 0


async def test_an_event_is_stamped_when_its_last_byte_came():
    async def dribble(peer):
        await peer.start()
        for byte in sse(token("grüße 🚀")):
            await peer.send(chunk(bytes([byte])))
            await asyncio.sleep(0)
        await peer.end(token("b"), "[DONE]")

    record, (peer,) = await observe(dribble)
    assert record.text == "grüße 🚀b"
    assert stamps(record)[0] >= peer.wrote_us[-2]


async def test_a_one_token_answer_is_complete():
    async def one(peer):
        await peer.start()
        await peer.end(token("a", finish_reason="length"), usage(1), "[DONE]")

    record, _ = await observe(one)
    assert record.failure is None
    assert record.tokens == [1, 0, 0]


async def test_a_finish_reason_ends_a_stream_as_well_as_done():
    async def no_done(peer):
        await peer.start()
        await peer.end(token("a", finish_reason="stop"))

    assert (await observe(no_done))[0].failure is None


async def test_a_stream_that_breaks_after_done_was_whole():
    async def cut_after_done(peer):
        await peer.start()
        await peer.event(token("a"), "[DONE]")

    async def close(peer):
        await cut_after_done(peer)
        peer.writer.close()

    async def hang(peer):
        await cut_after_done(peer)
        await asyncio.sleep(5)

    assert (await observe(close))[0].failure is None
    assert (await observe(hang, stall_s=0.1))[0].failure is None


async def test_an_http_error_keeps_status_and_words():
    async def error(peer):
        body = json.dumps({"error": "x" * 5000 + "\x00\x1b[2J"}).encode()
        await peer.send(b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n" % len(body), body)

    record, _ = await observe(error)
    assert (record.failure.kind, record.failure.status, record.kinds) == ("http", 500, "")
    assert record.failure.message.startswith('{"error": "xxx')
    assert len(record.failure.message) > 5000  # cut when it is written, after it was redacted
    assert len(written(record).failure.message) == MESSAGE_LIMIT


async def test_a_redirect_is_a_failure_and_is_not_followed():
    async def elsewhere(peer):
        await peer.send(b"HTTP/1.1 307 Moved\r\nLocation: /v1/completions\r\nContent-Length: 0\r\n\r\n")

    record, peers = await observe(elsewhere)
    assert (record.failure.kind, record.failure.status, len(peers)) == ("http", 307, 1)


async def test_a_stall_keeps_what_came_before():
    async def stall(peer):
        await peer.start()
        await peer.event(token("a"), token("b"))
        await asyncio.sleep(5)

    record, _ = await observe(stall, stall_s=0.1)
    assert (record.failure.kind, record.kinds, record.text) == ("stall", "tt", "ab")
    assert record.failure.message == "ReadTimeout: no bytes for 0.1 s"
    assert record.end_us - stamps(record)[-1] >= 90_000


async def test_silence_before_the_answer_is_a_stall_and_not_retried():
    async def silence(peer):
        await asyncio.sleep(5)

    record, peers = await observe(silence, stall_s=0.05)
    assert (record.failure.kind, record.retries, len(peers)) == ("stall", 0, 1)


async def test_a_server_that_drips_comments_holds_a_request_no_longer_than_it_may_take():
    async def drip(peer):
        await peer.start()
        await peer.event(token("a"))
        while True:
            await peer.send(chunk(b": still here\n\n"))
            await asyncio.sleep(0.01)

    record, _ = await observe(drip, stall_s=5, request_s=0.15)
    assert (record.failure.kind, record.failure.status, record.kinds) == ("stall", 200, "t")
    assert record.failure.message == "ReadTimeout: not complete after 0.15 s"
    assert 140_000 <= record.end_us - record.t0_us < 2_000_000


async def test_a_server_that_ignores_max_tokens_is_stopped_with_what_it_said():
    async def endless(peer):
        await peer.start()
        while True:
            await peer.event(token("a"))
            await asyncio.sleep(0.005)

    async with serving(endless, ok) as server, Client(server.url, request_s=0.1) as client:
        first, second = [await client.complete(call(index), Clock(0)) for index in range(2)]
        assert (first.failure.kind, set(first.kinds)) == ("stall", {"t"})
        assert second.failure is None


async def test_a_head_that_never_ends_is_given_up_as_well():
    async def endless_head(peer):
        await peer.send(HEAD)
        while True:
            await peer.send(b"X-More: 1\r\n")
            await asyncio.sleep(0.02)

    record, _ = await observe(endless_head, request_s=0.1)
    assert (record.failure.kind, record.failure.status, record.kinds) == ("stall", None, "")


async def test_an_answer_without_end_in_bytes_is_a_protocol_failure():
    async def flood(peer):
        await peer.start()
        while True:
            await peer.event(*[token("x" * 1000)] * 20)

    record, _ = await observe(flood, answer_bytes=200_000)
    assert (record.failure.kind, record.failure.status) == ("protocol", 200)
    assert set(record.kinds) == {"t"}


async def test_broken_json_is_a_protocol_failure_among_the_events():
    async def broken(peer):
        await peer.start()
        await peer.end(token("a"), '{"choices": [', token("b"), "[DONE]")

    record, _ = await observe(broken)
    assert (record.failure.kind, record.failure.status, record.kinds) == ("protocol", 200, "txtd")


async def test_an_error_event_under_200_fails_the_request_and_keeps_its_tokens():
    async def error(peer):
        await peer.start()
        await peer.event(*(token(text, token_ids=[1]) for text in "abcde"))
        await peer.end({"error": {"message": "KV cache full", "code": 500}}, "[DONE]")

    record, _ = await observe(error)
    assert (record.failure.kind, record.failure.status) == ("error-event", 200)
    assert "KV cache full" in record.failure.message
    assert (record.kinds, record.tokens, record.text) == ("tttttxd", [1] * 5 + [0, 0], "abcde")


async def test_an_early_end_is_a_stream_failure():
    async def early(peer):
        await peer.start()
        await peer.end(token("a"))

    async def within(peer):
        await peer.start()
        await peer.end(token("a"), b'data: {"choi')

    async def broken(peer):
        await peer.start()
        await peer.event(token("a"))
        peer.writer.close()

    for script, words in (early, "without [DONE]"), (within, "within an event"), (broken, "RemoteProtocolError"):
        record, _ = await observe(script)
        assert (record.failure.kind, record.kinds) == ("stream", "t")
        assert words in record.failure.message


async def test_an_empty_answer_is_a_failure():
    async def empty(peer):
        await peer.start()
        await peer.end()

    async def no_text(peer):
        await peer.start()
        await peer.end(delta(role="assistant"), usage(0), "[DONE]")

    assert (await observe(empty))[0].failure.kind == "empty"
    record, _ = await observe(no_text)
    assert (record.failure.kind, record.kinds) == ("empty", "rud")


async def test_an_answer_that_is_no_event_stream_is_a_protocol_failure():
    async def whole(peer):
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    async def garbage(peer):
        await peer.send(b"SSH-2.0-OpenSSH_9\r\n\r\n")

    record, _ = await observe(whole)
    assert (record.failure.kind, record.failure.message) == (
        "protocol",
        "application/json in place of an event stream: {}",
    )
    assert (await observe(garbage))[0].failure.kind == "protocol"


async def test_a_refused_connection_is_a_record_without_t0():
    async with serving(ok) as server:
        url = server.url
    async with Client(url) as client:
        record = await client.complete(call(), Clock(0))
    assert (record.failure.kind, record.t0_us, record.kinds) == ("connect", None, "")
    assert record.end_us > 0


async def test_a_connection_that_was_announced_to_stay_but_closed_is_replaced_once():
    async def close_unannounced(peer):
        await ok(peer)
        await asyncio.sleep(0.05)  # the next request is already on its way when the server goes

    async def vanish(peer):
        peer.hang_up()

    async with serving(ok, vanish, ok) as server, Client(server.url) as client:
        first = await client.complete(call(0), Clock(0))
        second = await client.complete(call(1), Clock(0))
        assert first.failure is None
        assert second.failure is None
        assert (first.retries, second.retries) == (0, 1)
        assert [peer.connection for peer in server.peers] == [1, 1, 2]
        assert server.peers[1].read_us <= second.t0_us <= server.peers[2].read_us


async def test_a_kept_connection_whose_replacement_dies_too_is_a_stream_failure():
    async def close_unannounced(peer):
        await ok(peer)
        await asyncio.sleep(0.05)

    async def vanish(peer):
        peer.hang_up()

    async with serving(close_unannounced, vanish) as server, Client(server.url) as client:
        await client.complete(call(0), Clock(0))
        record = await client.complete(call(1), Clock(0))
        assert (record.failure.kind, record.retries, len(server.peers)) == ("stream", 1, 3)


async def test_a_request_that_a_server_worked_on_and_dropped_is_a_failure_and_not_sent_again():
    async def drop(peer):
        await asyncio.sleep(0.15)
        peer.hang_up()

    async with serving(ok, drop) as server, Client(server.url) as client:
        await client.complete(call(0), Clock(0))
        record = await client.complete(call(1), Clock(0))
        assert (record.failure.kind, record.retries, len(server.peers)) == ("stream", 0, 2)
        assert re.fullmatch(r"DiedUnanswered: closed without an answer after 0\.\d{3} s", record.failure.message)
        assert record.end_us - record.t0_us >= 140_000


@pytest.mark.parametrize("fresh", [False, True])
async def test_a_new_connection_that_dies_unanswered_is_a_failure_and_not_tried_again(fresh):
    async def vanish(peer):
        peer.hang_up()

    record, peers = await observe(vanish, ok, fresh_connections=fresh)
    assert (record.failure.kind, record.retries, len(peers)) == ("stream", 0, 1)


async def test_a_connection_that_died_within_its_answer_is_not_retried():
    async def half_a_head(peer):
        await peer.send(HEAD[:20])
        peer.hang_up()

    record, peers = await observe(half_a_head)
    assert (record.failure is not None, record.retries, len(peers)) == (True, 0, 1)


async def test_a_closed_idle_connection_is_not_used_again():
    async def polite(peer):
        await ok(peer)
        peer.writer.close()

    async with serving(polite) as server, Client(server.url) as client:
        for index in range(3):
            record = await client.complete(call(index), Clock(0))
            assert (record.failure, record.retries) == (None, 0)
            await asyncio.sleep(0.01)
        assert server.connections == 3


async def test_connections_made_ready_are_as_many_as_asked_though_the_server_closed_kept_ones():
    async def polite(peer):
        await ok(peer)
        peer.writer.close()

    async with serving(polite) as server, Client(server.url) as client:
        await client.complete(call(), Clock(0))
        await asyncio.sleep(0.01)
        await client.open(3)
        await asyncio.sleep(0.01)
        assert server.connections == 1 + 3


async def test_connections_are_kept_or_fresh_as_asked():
    for fresh, connections in (False, 1), (True, 3):
        async with serving(ok) as server, Client(server.url, fresh_connections=fresh) as client:
            records = [await client.complete(call(index), Clock(0)) for index in range(3)]
            assert [record.failure for record in records] == [None] * 3
            assert server.connections == connections


async def test_a_compressed_answer_is_read():
    async def zipped(peer):
        body = gzip.compress(b"".join(map(sse, [token("a"), token("b"), FINISH, "[DONE]"])))
        await peer.start(b"Content-Encoding: gzip\r\n")
        await peer.send(*(chunk(body[i : i + 20]) for i in range(0, len(body), 20)), b"0\r\n\r\n")

    async def bogus(peer):
        await peer.start(b"Content-Encoding: gzip\r\n")
        await peer.end(token("a"))

    record, (peer,) = await observe(zipped)
    assert (record.failure, record.kinds) == (None, "tted")
    assert "accept-encoding: identity" in peer.head.lower()
    assert (await observe(bogus))[0].failure.kind == "protocol"


async def test_hostile_text_is_kept_as_text_and_cut():
    async def hostile(peer):
        await peer.start()
        await peer.event('{"choices": [{"text": "\\ud800\\u0000\\u001b[2J</script>"}]}')
        await peer.end(token("y" * 100_000), FINISH, "[DONE]")

    record, _ = await observe(hostile)
    assert record.text.startswith("\ufffd\x00\x1b[2J</script>yy")
    assert len(written(record).text) == TEXT_LIMIT
    assert Request.model_validate_json(record.model_dump_json()) == record


async def test_a_url_may_end_in_v1_and_headers_go_along():
    async with serving(ok) as server, Client(server.url + "/v1/", headers={"Authorization": "Bearer k"}) as client:
        assert (await client.complete(call(), Clock(0))).failure is None
        assert server.peers[0].head.startswith("POST /v1/completions ")
        assert "Bearer k" in server.peers[0].head


async def test_a_given_transport_replaces_the_network():
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=b"".join(map(sse, [token("a"), FINISH, "[DONE]"])))

    async with Client("http://engine", transport=httpx.MockTransport(answer)) as client:
        record = await client.complete(call(), Clock())
    assert (record.failure, record.kinds) == (None, "ted")
    assert 0 <= record.t0_us <= record.end_us


async def test_a_cancelled_request_frees_its_connection():
    async def stall(peer):
        await peer.start()
        await asyncio.sleep(5)

    async with serving(stall, ok) as server, Client(server.url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.complete(call(), Clock(0))
        assert (await client.complete(call(), Clock(0))).failure is None


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl for a certificate")
async def test_tls_is_spoken_and_an_unknown_certificate_is_a_connect_failure(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *names], check=True, capture_output=True)  # noqa: ASYNC221
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with serving(ok, tls=context) as server:
        async with Client(server.url, verify=ssl.create_default_context(cafile=certificate)) as client:
            records = [await client.complete(call(index), Clock(0)) for index in range(2)]
            assert [(record.failure, record.kinds) for record in records] == [(None, "ttud")] * 2
        async with Client(server.url) as client:
            assert (await client.complete(call(), Clock(0))).failure.kind == "connect"
