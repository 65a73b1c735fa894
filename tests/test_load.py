import asyncio
import time
from pathlib import Path

import pytest

from fault_server import serving
from genreport import desk
from genreport.client import Call, Client, Clock, Exchange
from genreport.load import LAG_PERIOD_US, Honesty, closed_loop, suspended_ns
from genreport.records import Request

pytestmark = pytest.mark.anyio


def calls(count: int) -> list[Call]:
    return [Call(index=i, seed=i, body={"prompt": [i]}, asked_input=1, asked_output=1) for i in range(count)]


def token(text, finish=None):
    return {"choices": [{"text": text, "finish_reason": finish}]}


async def quick(peer):
    await peer.start()
    await asyncio.sleep(0.01)
    await peer.end(token("a", "length"), "[DONE]")


async def broken(peer):
    await peer.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")


async def hold(peer):
    await peer.start()
    await peer.event(token("a"))
    await asyncio.sleep(5)


async def load(client, count, concurrency):
    records, clock = [], Clock()
    await closed_loop(client, iter(calls(count)), concurrency, clock, records.append)
    return records


async def test_every_call_is_made_once_and_never_more_than_the_concurrency_at_a_time():
    async def once_full(peer):
        await server.has_seen(3)
        await quick(peer)

    async with serving(once_full) as server, Client(server.url) as client:
        records = await load(client, 10, 3)
    assert sorted(record.index for record in records) == list(range(10))
    assert all(record.failure is None for record in records)
    moments = sorted([(record.t0_us, 1) for record in records] + [(record.end_us, -1) for record in records])
    depth = peak = 0
    for _, step in moments:
        depth += step
        peak = max(peak, depth)
    assert peak == 3


async def test_a_request_is_due_when_its_place_became_free():
    async with serving(quick) as server, Client(server.url) as client:
        records = await load(client, 6, 2)
    assert all(record.t0_us >= record.due_us for record in records)
    first, later = records[:2], records[2:]
    assert first[0].due_us == first[1].due_us
    assert {record.due_us for record in later} <= {record.end_us for record in records}


async def test_a_failed_request_frees_its_place():
    async with serving(broken, broken, quick) as server, Client(server.url) as client:
        records = await load(client, 5, 1)
    assert [record.failure.kind if record.failure else None for record in records] == ["http", "http", None, None, None]


async def test_all_requests_may_fail():
    async with serving(broken) as server, Client(server.url) as client:
        records = await load(client, 4, 2)
    assert {record.failure.status for record in records} == {503}


async def test_fewer_calls_than_places_is_no_harm():
    async with serving(quick) as server, Client(server.url) as client:
        assert len(await load(client, 1, 8)) == 1
        assert await load(client, 0, 8) == []


async def test_a_cancelled_load_has_handed_over_what_finished():
    records = []
    async with serving(quick, quick, hold) as server, Client(server.url) as client:
        running = asyncio.create_task(closed_loop(client, calls(9), 2, Clock(), records.append))
        await server.has_seen(4)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert sorted(record.index for record in records) == [0, 1]


async def test_an_answer_being_read_when_the_load_is_cancelled_is_handed_over():
    async def long(peer):
        await peer.start()
        await peer.end(*(token("a") for _ in range(3000)), "[DONE]")

    records = []
    async with serving(long, hold) as server, Client(server.url) as client:
        running = asyncio.create_task(closed_loop(client, calls(2), 1, Clock(), records.append))
        await server.has_seen(2)
        assert records == []  # the place was filled again before the answer was parsed
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert [len(record.kinds) for record in records] == [3001]


async def test_an_error_of_the_receiver_stops_the_load():
    def full(record):
        raise OSError("no space left")

    async with serving(quick) as server, Client(server.url) as client:
        with pytest.raises(OSError, match="no space left"):
            await closed_loop(client, calls(4), 2, Clock(), full)


async def test_honesty_sees_a_blocked_loop_and_counts_its_processor_time():
    async with Honesty() as honesty:
        await asyncio.sleep(0.06)
        until = time.process_time() + 0.12
        while time.process_time() < until:  # a busy client: what the samples are for
            pass
        await asyncio.sleep(0.06)
    facts = honesty.facts
    assert facts.lag_period_us == LAG_PERIOD_US
    assert max(facts.lag_us) >= 60_000
    assert min(facts.lag_us) >= 0
    assert 110_000 <= facts.cpu_us <= facts.wall_us


async def test_a_saturated_client_keeps_no_more_unread_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(desk, "MOST_BYTES", 20_000)
    read: list[Request] = []
    at_it, most = desk.Desk(read.append), 0

    async def more_each_turn_than_is_read_in_one() -> None:
        nonlocal most
        for _ in range(50):
            for index in range(20):
                at_it.take(ended(index, events=64))
            await asyncio.sleep(0)
            most = max(most, at_it._bytes)
        at_it.close()

    await asyncio.gather(at_it.work(), more_each_turn_than_is_read_in_one())
    assert len(read) == 1000
    assert most <= 20_000 + 2 * 20 * ended(0, events=64).bytes  # and what two turns bring


def ended(index: int, events: int) -> Exchange:
    exchange = Exchange(Call(index=index, seed=0, body={}, asked_input=1, asked_output=events), Clock(0))
    exchange.sent()
    for token in range(events):
        exchange.take(token, b'data: {"choices": [{"index": 0, "text": "t%d"}]}\n\n' % token)
    return exchange


def test_a_machine_slept_for_as_long_as_its_uptime_is_ahead_of_its_monotonic_clock():
    """As the kernel tells it elsewhere, in hundredths of a second."""
    seconds = float(Path("/proc/uptime").read_text().split()[0]) - time.clock_gettime(time.CLOCK_MONOTONIC)
    assert suspended_ns() / 1e9 == pytest.approx(seconds, abs=0.5)


def test_sleep_is_seen_where_only_the_clock_that_counts_it_went_on(monkeypatch):
    """The machine that tests run on may never sleep, so both clocks are set."""
    clocks = {time.CLOCK_BOOTTIME: 53_000_000_000, time.CLOCK_MONOTONIC: 41_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", clocks.__getitem__)
    assert suspended_ns() == 12_000_000_000


async def test_a_level_tells_how_long_the_machine_slept_in_it_and_not_before(monkeypatch):
    clocks = {time.CLOCK_BOOTTIME: 53_000_000_000, time.CLOCK_MONOTONIC: 41_000_000_000}
    monkeypatch.setattr(time, "clock_gettime_ns", clocks.__getitem__)
    async with Honesty() as honesty:
        clocks[time.CLOCK_BOOTTIME] += 2_500_000_000
        clocks[time.CLOCK_MONOTONIC] += 500_000_000
    assert honesty.facts.slept_us == 2_000_000
