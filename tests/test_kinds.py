"""SGLang, TGI and Ollama: what is sent, what their answers say, and rounds measured on them.

No such server was met: every transcript here is composed from the public documentation of its server.
"""

import json
import re

import httpx
import pytest
from click.testing import CliRunner

from compose import Engine, Load, Test, compose_round, lengths, sweep
from fault_server import serving
from genreport.audit import audit
from genreport.cli import main
from genreport.client import Call, Client, Clock
from genreport.engines import KINDS, OWN, exposition, sampled
from genreport.figures import Figures, compute
from genreport.plan.engines import EngineEntry

pytestmark = pytest.mark.anyio
NEW = ("sglang", "tgi", "ollama")


async def answer(kind, *payloads, lines=False):
    """The record of one request of a kind whose server answers with these payloads, and what the server was sent."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nConnection: close\r\n\r\n"
    media = b"application/x-ndjson" if lines else b"text/event-stream"

    async def script(peer):
        await peer.send(head % media)
        for payload in payloads:
            text = payload if isinstance(payload, str) else json.dumps(payload)
            await peer.send(f"{text}\n".encode() if lines else f"data:{text}\n\n".encode())
        peer.writer.close()

    module = OWN["sglang"] if kind == "sglang's own" else KINDS[kind]
    body = sampled(module, module.body("tiny", "time way", 3, 9), {"top_p": 0.5, "seed": None})
    call = Call(index=0, seed=9, body=body, asked_input=2, asked_output=3)
    async with serving(script) as server, Client(server.url, stall_s=5) as client:
        return await client.complete(call, Clock(0)), server.peers[0]


async def facts(kind, pages):
    def serve(request: httpx.Request) -> httpx.Response:
        page = pages.get(request.url.path)
        return httpx.Response(404) if page is None else httpx.Response(200, json=page)

    async with httpx.AsyncClient(transport=httpx.MockTransport(serve), base_url="http://engine") as client:
        return await KINDS[kind].facts(client)


# SGLang


def of_sglang(text, n, finish=None):
    return {"choices": [{"index": 0, "text": text, "finish_reason": finish, "matched_stop": None}],
            "usage": {"prompt_tokens": 2, "completion_tokens": n, "total_tokens": n + 2}}  # fmt: skip


async def test_sglang_tells_with_each_event_how_many_tokens_there_are():
    last = {
        "choices": [],
        "usage": {"prompt_tokens": 2, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 1}},
    }
    events = [of_sglang("a", 1), of_sglang("bc", 3), of_sglang("d", 4, "length"), last]
    record, peer = await answer("sglang", *events, "[DONE]")
    assert (record.failure, record.kinds, record.tokens) == (None, "tttud", [1, 2, 1, 0, 0])
    assert (record.finish, record.usage.cached_tokens, record.text) == ("length", 1, "abcd")
    assert peer.head.startswith("POST /v1/completions ")
    assert (peer.body["ignore_eos"], peer.body["top_p"], "seed" in peer.body) == (True, 0.5, False)
    assert peer.body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def of_sglangs_own(text, n, finish=None, **more):
    meta = {"id": "1f", "finish_reason": finish, "prompt_tokens": 2, "completion_tokens": n, "cached_tokens": 1}
    return {"text": text, "meta_info": meta | {"weight_version": "default"}, **more}


LENGTH = {"type": "length", "length": 4}
WHOLE = [of_sglangs_own("a", 1), of_sglangs_own("a", 2), of_sglangs_own("aü", 3), of_sglangs_own("aüx", 4, LENGTH)]
PARTS = [of_sglangs_own("a", 1), of_sglangs_own("", 2), of_sglangs_own("ü", 3), of_sglangs_own("x", 4, LENGTH)]


@pytest.mark.parametrize("events", [WHOLE, PARTS])
async def test_sglangs_own_stream_is_read_whether_it_repeats_the_text_or_not(events):
    record, peer = await answer("sglang's own", *events, "[DONE]")
    assert (record.failure, record.kinds, record.tokens) == (None, "ttttd", [1, 1, 1, 1, 0])
    assert (record.text, record.finish) == ("aüx", "length")
    assert (record.usage.prompt_tokens, record.usage.completion_tokens, record.usage.cached_tokens) == (2, 4, 1)
    assert peer.head.startswith("POST /generate ")
    assert peer.body == {"text": "time way", "stream": True, "sampling_params": {
        "temperature": 0, "ignore_eos": True, "max_new_tokens": 3, "top_p": 0.5}}  # fmt: skip


async def test_several_tokens_of_sglangs_own_event_are_told_by_its_running_total():
    events = [
        of_sglangs_own("ab", 2),
        of_sglangs_own("abcde", 5),
        of_sglangs_own("abcde", 5, {"type": "stop", "matched": 2}),
    ]
    record, _ = await answer("sglang's own", *events, "[DONE]")
    assert (record.kinds, record.tokens, record.text, record.finish) == ("tted", [2, 3, 0, 0], "abcde", "stop")


async def test_a_text_that_begins_with_the_one_before_by_chance_is_told_by_its_ids():
    events = [of_sglangs_own("ha", n, LENGTH if n == 3 else None, output_ids=[7]) for n in (1, 2, 3)]
    record, _ = await answer("sglang's own", *events, "[DONE]")
    assert (record.text, record.tokens) == ("hahaha", [1, 1, 1, 0])
    events = [of_sglangs_own("ha", n, LENGTH if n == 3 else None, output_ids=[7] * n) for n in (1, 2, 3)]
    record, _ = await answer("sglang's own", *events, "[DONE]")
    assert (record.text, record.tokens) == ("ha", [1, 1, 1, 0])


async def test_ids_without_text_are_tokens_all_the_same():
    """As a server sends them that was started without a tokenizer."""
    events = [{key: value for key, value in of_sglangs_own("", n, LENGTH if n == 2 else None, output_ids=[9] * n).items()
               if key != "text"} for n in (1, 2)]  # fmt: skip
    record, _ = await answer("sglang's own", *events, "[DONE]")
    assert (record.failure, record.kinds, record.tokens) == (None, "ttd", [1, 1, 0])


@pytest.mark.parametrize("last", [
    {"error": {"message": "the input is longer than the context"}},
    of_sglangs_own("a", 1, {"type": "abort", "message": "the input is longer than the context", "status_code": 400}),
])  # fmt: skip
async def test_an_error_or_an_abort_within_sglangs_own_stream_fails_the_request(last):
    record, _ = await answer("sglang's own", of_sglangs_own("a", 1), last, "[DONE]")
    assert (record.failure.kind, record.failure.status, record.kinds) == ("error-event", 200, "txd")
    assert "longer than the context" in record.failure.message


async def test_sglangs_own_stream_that_breaks_off_or_holds_nothing_fails():
    record, _ = await answer("sglang's own", *WHOLE[:2])
    assert record.failure.kind == "stream"
    record, _ = await answer("sglang's own", of_sglangs_own("", 0, {"type": "stop", "matched": 2}), "[DONE]")
    assert record.failure.kind == "empty"


def test_sglangs_own_stream_takes_token_ids():
    body = OWN["sglang"].body("tiny", [5, 6], 3, 9)
    assert (body["input_ids"], "text" in body) == ([5, 6], False)


@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "tgi", "ollama", "openai"])
def test_only_sglang_can_be_asked_at_two_places(kind):
    url = "http://localhost:1"
    assert EngineEntry(id="a", kind="sglang", model="m", url=url, api="own").api == "own"
    with pytest.raises(ValueError, match="for kind sglang alone"):
        EngineEntry(id="a", kind=kind, model="m", url=url, api="own")


async def test_of_sglangs_settings_those_are_kept_that_hold_no_secret():
    info = {
        "version": "0.5.3",
        "api_key": "sk-1",
        "model_path": "/home/me/m",
        "page_size": 1,
        "dtype": "auto",
        "tp_size": [1],
    }
    for path in ("/server_info", "/get_server_info"):
        version, endpoints = await facts("sglang", {path: info, "/v1/models": {"data": [{"id": "tiny"}]}})
        assert version == "0.5.3"
        assert endpoints[path] == {"version": "0.5.3", "page_size": 1, "dtype": "auto"}
        assert endpoints["/v1/models"] == {"data": [{"id": "tiny"}]}


# TGI


def of_tgi(text, *, special=False, finish=None, n=None):
    details = {"finish_reason": finish, "generated_tokens": n, "seed": None, "input_length": 2} if finish else None
    token = {"id": 7, "text": text, "logprob": -0.5, "special": special}
    return {"index": 1, "token": token, "generated_text": "all of it" if finish else None, "details": details}


async def test_tgi_sends_an_event_a_token_and_the_counts_with_the_last():
    record, peer = await answer("tgi", of_tgi("a"), of_tgi(" b"), of_tgi("c", finish="length", n=3))
    assert (record.failure, record.kinds, record.tokens) == (None, "ttt", [1, 1, 1])
    assert (record.text, record.finish) == ("a bc", "length")
    assert (record.usage.prompt_tokens, record.usage.completion_tokens) == (2, 3)
    assert peer.head.startswith("POST /generate_stream ")
    assert peer.body == {"inputs": "time way", "parameters": {
        "do_sample": False, "max_new_tokens": 3, "details": True, "return_full_text": False, "top_p": 0.5}}  # fmt: skip


async def test_an_end_of_sequence_of_tgi_is_a_token_without_text():
    record, _ = await answer("tgi", of_tgi("a"), of_tgi("</s>", special=True, finish="eos_token", n=2))
    assert (record.failure, record.kinds, record.tokens, record.text) == (None, "tt", [1, 1], "a")


async def test_an_error_within_tgis_stream_fails_the_request():
    error = {"error": "Request failed during generation: out of memory", "error_type": "generation"}
    record, _ = await answer("tgi", of_tgi("a"), error)
    assert (record.failure.kind, record.kinds) == ("error-event", "tx")
    assert "out of memory" in record.failure.message


async def test_a_stream_of_tgi_without_its_details_is_incomplete():
    record, _ = await answer("tgi", of_tgi("a"), of_tgi("b"))
    assert record.failure.kind == "stream"


async def test_tgi_says_its_version_in_its_info():
    info = {"model_id": "tiny", "version": "3.3.5", "max_total_tokens": 4096}
    assert await facts("tgi", {"/info": info}) == ("3.3.5", {"/info": info})


# Ollama


def of_ollama(text, **more):
    return {"model": "tiny", "created_at": "2023-08-04T08:52:19Z", "response": text, "done": False, **more}


LAST = of_ollama("", done=True, done_reason="length", total_duration=9_000_000, load_duration=1_000_000,
                 prompt_eval_count=2, prompt_eval_duration=3_000_000, eval_count=2, eval_duration=5_500_000)  # fmt: skip


async def test_ollama_sends_lines_and_its_counts_and_durations_with_the_last():
    record, peer = await answer("ollama", of_ollama("a"), of_ollama("ü"), LAST, lines=True)
    assert (record.failure, record.kinds, record.tokens) == (None, "tte", [1, 1, 0])
    assert (record.text, record.finish, record.usage.prompt_tokens) == ("aü", "length", 2)
    assert record.server["timings"] == {
        "prompt_n": 2, "predicted_n": 2, "prompt_ms": 3.0, "predicted_ms": 5.5, "load_ms": 1.0}  # fmt: skip
    assert peer.head.startswith("POST /api/generate ")
    assert (peer.body["raw"], peer.body["options"]) == (True, {"temperature": 0, "num_predict": 3, "top_p": 0.5})


async def test_ollamas_thinking_is_reasoning_and_an_old_last_line_ends_a_stream_too():
    old = {key: value for key, value in LAST.items() if key != "done_reason"}
    record, _ = await answer("ollama", of_ollama("", thinking="hm"), of_ollama("a"), old, lines=True)
    assert (record.failure, record.kinds) == (None, "kte")


async def test_an_error_line_of_ollama_fails_the_request_and_a_missing_last_line_too():
    record, _ = await answer("ollama", of_ollama("a"), {"error": "model runner has stopped"}, lines=True)
    assert (record.failure.kind, record.kinds) == ("error-event", "tx")
    assert (await answer("ollama", of_ollama("a"), lines=True))[0].failure.kind == "stream"
    record, _ = await answer("ollama", of_ollama("a"), lines=True)
    assert record.failure.message.endswith("without [DONE] or a finish reason")


async def test_ollama_says_its_version():
    assert (await facts("ollama", {"/api/version": {"version": "0.12.1"}}))[0] == "0.12.1"


# all of them


@pytest.mark.parametrize("kind", NEW)
def test_a_plan_may_name_the_kind_and_its_prompts_are_what_the_server_takes(kind):
    engine = EngineEntry(id="a", kind=kind, model="m", url="http://localhost:1")
    assert engine.prompt_form == ("ids" if kind == "sglang" else "text")


@pytest.mark.parametrize(("kind", "text", "idle"), [
    ("sglang", 'sglang:num_running_reqs{model_name="m"} 0.0\nsglang:num_queue_reqs{model_name="m"} 2.0\n', False),
    ("sglang", 'sglang:num_running_reqs{model_name="m"} 0.0\nsglang:num_queue_reqs{model_name="m"} 0.0\n', True),
    ("tgi", "tgi_batch_current_size 3\ntgi_queue_size 0\n", False),
    ("tgi", "tgi_batch_current_size 0\ntgi_queue_size 0\n", True),
])  # fmt: skip
def test_a_server_is_idle_when_none_runs_and_none_waits(kind, text, idle):
    assert exposition.idle(text, KINDS[kind].BUSY) is idle


@pytest.mark.parametrize("kind", NEW)
def test_a_round_of_the_kind_is_read_and_what_is_not_counted_is_missing_with_a_reason(kind, tmp_path):
    engines = (Engine(f"{kind}-a", kind, baseline=True), Engine("vllm-bf16", "vllm"))
    figures: Figures = compute(compose_round(tmp_path / "r", engines=engines, tests=(sweep(1, 4),)))
    level = f"concurrency.{kind}-a.c4"
    assert figures.ledger[f"{level}.ttft.p50"].value > 0
    for name in ("prefix_hit_share", "tokens_per_iteration", "preemptions", "graph_reuse"):
        assert figures.ledger[f"{level}.{name}"].value is None
        assert figures.ledger[f"{level}.{name}"].reason
    if kind == "ollama":
        assert figures.ledger[f"{level}.queue.mean"].value is None
        assert figures.ledger[f"{level}.prefill.mean"].value > 0  # its answers state it
    else:
        assert figures.ledger[f"{level}.check.engine_requests"].value == 0
        assert figures.ledger[f"{level}.check.engine_prompt_tokens"].value == 0
        assert figures.ledger[f"{level}.check.engine_generation_tokens"].value == 0
        assert figures.ledger[f"{level}.queue.mean"].value == pytest.approx(0.002)


# what no page may name where no such engine is
FOREIGN = re.compile(
    r"vLLM|vllm|llama\.cpp|llamacpp|llama-server|--metrics|/slots|n_decode|num_preemptions|prompt_ms|timings"
)
# the end of advice on what was met on other engines, which is no word about this round
ADVICE = "Reported by others, not met here."


@pytest.mark.slow
def test_a_site_of_the_three_kinds_holds_its_audit_and_names_no_counter_they_lack(tmp_path, monkeypatch):
    engines = tuple(
        Engine(kind, kind, baseline=kind == "sglang", itl_s=0.01 + 0.01 * place) for place, kind in enumerate(NEW)
    )
    cliff = Test("cliff", "cliff", (Load("short", 4, 32), Load("long", 4, 512)))
    slos = [{"id": "chat", "figure": "ttft", "percentile": "p90", "below_ms": 100}]
    tests = (sweep(1, 2, 4, 8, 16), lengths(32, 64, 256), cliff)
    compose_round(tmp_path / "composed", engines=engines, tests=tests, slos=slos)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["build", "composed"])
    assert result.exit_code == 0, result.output
    report = audit(tmp_path / "site")
    assert report.failures == []
    assert report.counts["figures recomputed"] > 300
    pages = [
        page for page in (tmp_path / "site" / "rounds" / "composed").glob("**/*.html") if "sources" not in page.parts
    ]
    found = {f"{page.parent.name}: {sentence}" for page in pages for sentence in foreign(page.read_text("utf-8"))}
    assert found == set()


def foreign(page: str) -> list[str]:
    """Paragraphs of a page that name another engine or its counters."""
    article = re.search(r"<article.*</article>", page, re.S)
    text = re.sub(r"<(script|style).*?</\1>", "", article[0] if article else "", flags=re.S)
    paragraphs = (re.sub(r"<[^>]*>", "", part).strip() for part in re.split(r"</(?:p|li|dd|td|th|h\d)>", text))
    return [part for part in paragraphs if FOREIGN.search(part) and not part.endswith(ADVICE)]
