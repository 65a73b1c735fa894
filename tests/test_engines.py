"""Engine processes, their counters, and what the kinds put into a request."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from genreport.engines import KINDS, asking, exposition, llamacpp
from genreport.engines import process as process_module
from genreport.engines import server as server_module
from genreport.engines.process import Log, Process, pinned, wait_ready
from genreport.engines.server import Samples, Server
from genreport.errors import EngineError

COUNTERS = """\
# HELP vllm:num_requests_running Number of requests
vllm:num_requests_running{engine="0",model_name="a } b"} 3.0
vllm:num_requests_running{engine="1",model_name="x"} 4.0 1700000000
vllm:num_requests_running_total{engine="0"} 99.0
vllm:kv_cache_usage_perc 0.5
broken{ nonsense
vllm:num_requests_waiting NaN words
"""


def python(program: str, **options: object) -> Process:
    return Process([sys.executable, "-c", program], **({"env": {}, "cpus": None} | options))  # type: ignore[arg-type]


def wait_for(condition: object) -> None:
    deadline = time.monotonic() + 10
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def server_of(handler: object, kind: str = "vllm") -> Server:
    http = httpx.AsyncClient(transport=httpx.MockTransport(handler), base_url="http://engine")  # type: ignore[arg-type]
    return Server(KINDS[kind], http, http, "http://engine/metrics", None, None)


def test_a_gauge_is_summed_over_its_label_sets() -> None:
    assert exposition.value(COUNTERS, "vllm:num_requests_running") == 7


def test_a_longer_name_and_a_comment_are_no_sample() -> None:
    assert exposition.value(COUNTERS, "vllm:num_requests_running_total") == 99
    assert exposition.value(COUNTERS, "requests_running") is None


def test_an_absent_series_is_none_and_not_zero() -> None:
    names = ["vllm:kv_cache_usage_perc", "vllm:num_preemptions_total", "broken"]
    assert exposition.values(COUNTERS, names) == [0.5, None, None]


def test_a_series_that_is_no_finite_number_is_sampled_as_none() -> None:
    names = ["nan", "inf", "partly", "fine"]
    found = exposition.values('nan NaN\ninf +Inf\npartly{a="1"} 1\npartly{a="2"} nan\nfine 2\n', names)
    assert found == [None, None, None, 2]
    assert Samples(tuple(names), rows=[[7, *found]]).samples().endswith("\n[7,null,null,null,2.0]\n")


def test_a_server_is_idle_when_no_gauge_of_work_is_above_zero() -> None:
    busy = KINDS["vllm"].BUSY
    assert not exposition.idle(COUNTERS, busy)
    assert exposition.idle("vllm:num_requests_running 0.0\nvllm:num_requests_waiting 0.0\n", busy)
    assert exposition.idle("", busy)
    assert exposition.idle("vllm:num_requests_running NaN\nvllm:num_requests_waiting -1\n", busy)


PIECES = [{"id": 1, "text": "", "start": 0, "stop": 0}, {"id": 5, "text": "a", "start": 0, "stop": 1},
          {"id": 6, "text": "b", "start": 1, "stop": 2}]  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "asks", "answer", "tokens"), [
    ("vllm", {"model": "m", "prompt": "ab", "add_special_tokens": False}, {"count": 2, "tokens": [5, 6], "max_model_len": 9}, 2),
    ("sglang", {"model": "m", "prompt": "ab", "add_special_tokens": False}, {"count": 2, "tokens": [5, 6]}, 2),
    ("llamacpp", {"content": "ab", "add_special": False}, {"tokens": [5, 6]}, 2),
    ("tgi", {"inputs": "ab"}, PIECES, 2),
])  # fmt: skip
async def test_a_server_is_asked_in_its_own_words_for_the_tokens_of_a_text(kind, asks, answer, tokens) -> None:
    asked = []

    def tokenize(request: httpx.Request) -> httpx.Response:
        asked.append((request.method, request.url.path, json.loads(request.content)))
        return httpx.Response(200, json=answer)

    assert await server_of(tokenize, kind).tokens("m", "ab") == tokens
    assert asked == [("POST", "/tokenize", asks)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer", [b"", b"{}", b"null", b"3", b'{"count": -1}', b'{"count": true}', b'{"count": "9"}', b"[" * 99999]
)
async def test_what_is_no_count_of_tokens_is_none_and_not_zero(answer) -> None:
    assert await server_of(lambda request: httpx.Response(200, content=answer)).tokens("m", "ab") is None
    assert await server_of(lambda request: httpx.Response(404, json={"count": 2})).tokens("m", "ab") is None


@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_a_kind_without_a_tokenizer_to_ask_says_so(kind) -> None:
    assert KINDS[kind].TOKENIZE is None


def test_every_kind_asks_for_a_greedy_answer_of_an_exact_length() -> None:
    for kind in (KINDS[name] for name in ("vllm", "llamacpp", "sglang", "openai")):
        body = kind.body("tiny", [1, 2], 5, 9)
        asked = {name: body[name] for name in ("prompt", "max_tokens", "temperature", "ignore_eos", "seed")}
        assert asked == {"prompt": [1, 2], "max_tokens": 5, "temperature": 0, "ignore_eos": True, "seed": 9}
        assert body["stream"]
        assert body["stream_options"]["include_usage"]


def test_each_kind_asks_for_counts_on_every_event_in_its_own_words() -> None:
    assert KINDS["vllm"].body("m", [], 1, 0)["return_token_ids"]
    assert KINDS["llamacpp"].body("m", [], 1, 0)["timings_per_token"]
    assert not KINDS["llamacpp"].body("m", [], 1, 0)["cache_prompt"]


def test_only_busy_slots_are_kept() -> None:
    slot = {"id": 3, "n_prompt_tokens_processed": 64, "n_prompt_tokens_cache": 0, "is_processing": True}
    newer, older = slot | {"next_token": [{"n_decoded": 7}]}, slot | {"next_token": {"n_decoded": 8}}
    assert llamacpp.busy_slots([newer, older, slot | {"is_processing": False}]) == [[3, 64, 0, 7], [3, 64, 0, 8]]


def test_a_slot_is_four_whole_numbers_whatever_the_server_says() -> None:
    slot = {"id": "7", "n_prompt_tokens_processed": 2.0, "n_prompt_tokens_cache": False, "is_processing": True}
    assert llamacpp.busy_slots([slot | {"next_token": {"n_decoded": 1}}]) == [[7, 2, 0, 1]]
    for said in ("sk-not-a-number", None, float("inf")):
        with pytest.raises((ValueError, TypeError, ArithmeticError)):
            llamacpp.busy_slots([slot | {"id": said, "next_token": {"n_decoded": 1}}])


@pytest.mark.anyio
async def test_slots_that_are_no_numbers_are_not_sampled() -> None:
    slot = (
        '[{"is_processing": true, "id": %s, "n_prompt_tokens_processed": 1, "n_prompt_tokens_cache": 0, '
        '"next_token": [{"n_decoded": 1}]}]'
    )
    pages = iter([slot % "5", slot % "1e999", slot % '"sk-secret"', "[" * 100_000])
    server = server_of(lambda _: httpx.Response(200, text=next(pages)), "llamacpp")
    assert [await server._busy_slots() for _ in range(4)] == [[[5, 1, 0, 1]], None, None, None]
    await server.http.aclose()


def test_what_an_engine_prints_is_in_its_log_by_byte_offsets() -> None:
    process = python("print('one', flush=True); import sys; print('tw\\u00f6', file=sys.stderr); sys.exit(3)")
    try:
        wait_for(lambda: process.exit_code is not None)
        assert process.log.bytes(4, process.log.size()).decode() == "twö\n"
        assert process.death() == "exit code 3, last log line: twö"
    finally:
        process.stop(1)


def test_a_flood_of_log_does_not_block_an_engine() -> None:
    process = python("import sys; sys.stdout.write('x' * 5_000_000); sys.exit(7)")
    try:
        wait_for(lambda: process.exit_code == 7)
        assert process.log.size() == 5_000_000
        assert process.log.last_line() == "longer than 4096 bytes"
    finally:
        process.stop(1)


def test_stopping_ends_the_whole_group_even_if_it_ignores_the_request(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    process = python(
        f"import os, subprocess, sys, time; other = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        f"time.sleep(0.3); open({str(pids)!r}, 'w').write(str(other.pid)); time.sleep(60)"
    )
    try:
        wait_for(lambda: pids.exists() and pids.read_text())
    finally:
        process.stop(0.3)
    assert process.exit_code == -15
    wait_for(lambda: not running(int(pids.read_text())))


def running(pid: int) -> bool:
    """Whether a process runs; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux pins processes to cores")
def test_an_engine_runs_on_its_cores_and_leaves_the_client_where_it_was() -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    process = python("import os; print(os.sched_getaffinity(0), os.environ['MARK'])", cpus={core}, env={"MARK": "here"})
    try:
        wait_for(lambda: process.exit_code == 0)
        assert process.log.last_line() == f"{{{core}}} here"
        assert os.sched_getaffinity(0) == before
    finally:
        process.stop(1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux pins processes to cores")
def test_cores_the_machine_lacks_are_refused() -> None:
    with pytest.raises(EngineError, match=r"no such cores: \[4000\]"), pinned({4000}):
        pass


def test_a_command_that_cannot_start_says_so() -> None:
    with pytest.raises(EngineError, match="cannot start '/nowhere/vllm': No such file"):
        Process(["/nowhere/vllm"], env={}, cpus=None)


def test_an_engine_whose_guard_cannot_start_does_not_run_on(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []

    def refused(group: int) -> None:
        groups.append(group)
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(process_module, "_guarded", refused)
    with pytest.raises(EngineError, match=r"cannot start a guard for the engine: Resource temporarily unavailable"):
        Process([sys.executable, "-c", "import time; time.sleep(60)"], env={}, cpus=None)
    assert not psutil.pid_exists(groups[0])


@pytest.mark.anyio
async def test_an_engine_that_dies_before_it_is_ready_is_named_with_its_last_words() -> None:
    process = python("print('out of memory'); raise SystemExit(9)")
    refused = httpx.MockTransport(lambda _: httpx.Response(503))
    try:
        async with httpx.AsyncClient(transport=refused, base_url="http://engine") as client:
            with pytest.raises(EngineError, match="exit code 9, last log line: out of memory"):
                await wait_ready(client, "/health", 10, process)
    finally:
        process.stop(1)


@pytest.mark.anyio
async def test_an_engine_that_is_never_ready_is_given_its_time_and_no_more() -> None:
    async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(503))) as client:
        with pytest.raises(EngineError, match=r"did not answer 200 within 0\.2 s \(it answers 503\)"):
            await wait_ready(client, "http://engine/health", 0.2, None)


@pytest.mark.anyio
async def test_a_server_that_is_not_there_is_named_with_its_address_and_the_systems_word_for_it(port: int) -> None:
    async with httpx.AsyncClient(base_url=f"http://me:secret@127.0.0.1:{port}") as client:
        with pytest.raises(EngineError) as found:
            await wait_ready(client, "/v1/models", 0.2, None)
    assert str(found.value).startswith(
        f"http://127.0.0.1:{port}/v1/models did not answer 200 within 0.2 s (Connection refused)"
    )


@pytest.mark.anyio
async def test_a_server_in_the_place_of_a_dead_engine_is_not_taken_for_it() -> None:
    process = python("raise SystemExit('address in use')")
    try:
        wait_for(lambda: process.exit_code is not None)
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
            with pytest.raises(EngineError, match="another server answers in its place"):
                await wait_ready(client, "http://engine/health", 5, process)
    finally:
        process.stop(1)


@pytest.mark.anyio
async def test_settling_waits_for_two_quiet_looks_in_a_row() -> None:
    answers = iter(["1.0", "0.0", "2.0", "0.0", "0.0"])
    server = server_of(lambda _: httpx.Response(200, text=f"vllm:num_requests_running {next(answers)}\n"))
    assert await server.quiet_counters() == ("vllm:num_requests_running 0.0\n", None)
    assert next(answers, None) is None
    await server.http.aclose()


@pytest.mark.anyio
async def test_unreadable_counters_are_none_and_never_called_idle() -> None:
    server = server_of(lambda _: httpx.Response(501))
    assert await server.counters() is None
    assert await server.quiet_counters() == (None, "its counters could not be read")
    await server.http.aclose()


@pytest.mark.anyio
async def test_sampling_keeps_series_and_slots_with_their_times() -> None:
    slot = {"id": 0, "n_prompt_tokens_processed": 5, "n_prompt_tokens_cache": 0, "is_processing": True}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/slots":
            return httpx.Response(200, json=[slot | {"next_token": [{"n_decoded": 2}]}])
        return httpx.Response(200, text="llamacpp:requests_processing 1\n")

    server = server_of(answer, "llamacpp")
    async with server.watched(lambda: 42) as seen:
        while not seen.slots:  # noqa: ASYNC110 - the sampler tells nobody
            await asyncio.sleep(0.01)
    await server.http.aclose()
    assert seen.rows == [[42, 1, None, None, None, None]]
    assert seen.slots == [[42, [[0, 5, 0, 2]]]]
    head, line = seen.samples().splitlines()
    assert head.startswith(
        '{"format":"genreport-samples/1","period_us":500000,"series":["llamacpp:requests_processing"'
    )
    assert line == "[42,1.0,null,null,null,null]"
    assert seen.busy_slots() == '{"format":"genreport-slots/1"}\n[42,[[0,5,0,2]]]\n'


@pytest.mark.anyio
async def test_a_server_that_does_not_calm_down_is_said_to_be_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SETTLE_S", 0.0)
    busy = "vllm:num_requests_waiting 1.0\n"
    server = server_of(lambda _: httpx.Response(200, text=busy))
    text, wrong = await server.quiet_counters()
    assert text == busy
    assert wrong.startswith("still busy after 0 s")
    await server.http.aclose()


@pytest.mark.anyio
async def test_hostile_answers_of_endpoints_are_kept_as_data_or_left_out() -> None:
    pages = {
        "/version": b'{"version": ["x"]}',
        "/v1/models": b'{"data": [NaN, "\\ud800<script>"]}',
        "/props": b"<html>",
    }
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=pages[request.url.path]))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        assert await KINDS["vllm"].facts(client) == (
            None,
            {"/version": {"version": ["x"]}, "/v1/models": {"data": [None, "?<script>"]}},
        )
        assert (await KINDS["llamacpp"].facts(client))[0] is None
        pages["/version"] = b'{"deep": ' + b"[" * 700 + b"]" * 700 + b"}"
        assert (await KINDS["vllm"].facts(client))[1].keys() == {"/v1/models"}


@pytest.mark.anyio
async def test_gpu_samples_are_the_sources_lines_with_the_time_first() -> None:
    async def source(period_s: float) -> AsyncIterator[str]:
        yield "index, power.draw [W]\n"
        yield "0, 71.20\n"
        await asyncio.sleep(60 / period_s)

    seen = Samples(())
    task = asyncio.create_task(server_module._sample_gpus(seen, lambda: 7, source))
    while len(seen.gpu) < 2:  # noqa: ASYNC110 - the sampler tells nobody
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert seen.gpu == ["t_us, index, power.draw [W]\n", "7, 0, 71.20\n"]


@pytest.mark.anyio
@pytest.mark.parametrize("lost", [True, False])
async def test_samples_that_end_before_the_level_does_are_a_remark(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    async def source(period_s: float) -> AsyncIterator[str]:
        yield "index, power.draw [W]\n"
        if lost:
            raise RuntimeError("GPU is lost")

    monkeypatch.setattr(server_module.devices, "source", lambda: source)
    engine = python("import time; time.sleep(60)")
    try:
        http = httpx.AsyncClient()
        async with http, Server(KINDS["openai"], http, http, None, engine, None).watched(lambda: 7) as seen:
            await asyncio.sleep(0.05)
    finally:
        engine.stop(5)
    assert seen.gpu == ["t_us, index, power.draw [W]\n"]
    assert seen.remarks == [
        "the samples of the GPUs ended before the level did" + (": RuntimeError: GPU is lost" if lost else "")
    ]


def test_nothing_sampled_makes_no_file() -> None:
    assert Samples(()).samples() == ""
    assert Samples(()).busy_slots() == ""


def test_a_log_that_holds_no_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("\n \n")
    assert Log(tmp_path / "log").last_line() == "none"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    (tmp_path / "log").write_bytes(b"first\nkey=abcdef\nthird\nunfini")
    return Log(tmp_path / "log")


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 6, (0, b"first\n")),
        (6, 17, (6, b"key=abcdef\n")),
        (8, 19, (17, b"third\n")),  # a line belongs to the range in which it ends
        (0, 12, (0, b"first\nkey=abcdef\n")),
        (12, 14, (17, b"")),
        (17, 29, (17, b"third\n")),  # the rest is still being written
        (29, 29, (29, b"")),
        (40, 50, (40, b"")),
    ],
)
def test_a_range_of_a_log_is_whole_lines(log: Log, start: int, end: int, found: tuple[int, bytes]) -> None:
    assert log.lines(start, end) == found


def test_ranges_of_a_log_that_follow_each_other_share_no_line_and_lose_none(log: Log) -> None:
    for cut in range(30):
        (start, before), (_, after) = log.lines(0, cut), log.lines(cut, 29)
        assert start == 0
        assert before + after == b"first\nkey=abcdef\nthird\n"


def test_the_last_words_of_a_writer_that_ended_need_no_line_end(log: Log) -> None:
    assert log.lines(20, 29, ended=True) == (23, b"unfini")


def test_a_log_that_went_away_is_empty(tmp_path: Path) -> None:
    assert Log(tmp_path / "none").lines(3, 9) == (3, b"")
    assert Log(tmp_path / "none").last_line() == "none"


def test_a_last_line_is_whole_or_not_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("sk-" + "x" * 5000 + "\nfatal: out of luck\n\n")
    assert Log(tmp_path / "log").last_line() == "fatal: out of luck"
    (tmp_path / "log").write_text("start\n" + "x" * 5000 + "\n")
    assert Log(tmp_path / "log").last_line() == "longer than 4096 bytes"


@pytest.mark.anyio
async def test_an_endpoint_that_drips_or_pours_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async def drip() -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0.01)
            yield b"x"

    async def pour() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 1000

    monkeypatch.setattr(asking, "MOST_BYTES", 50_000)
    for stream in (drip, pour):
        answer = httpx.MockTransport(lambda _, stream=stream: httpx.Response(200, content=stream()))
        async with httpx.AsyncClient(transport=answer, base_url="http://engine") as client:
            began = time.monotonic()
            assert await asking.asked(client, "/metrics", 0.1) is None
            assert time.monotonic() - began < 2
