"""Before a round: which engines are found, what a drafted plan says, what a plan will do."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compose import compose_round, sweep
from genreport.cli import main
from genreport.errors import printable
from genreport.plan import read_plan
from genreport.planning import ahead, draft, finding
from genreport.planning.finding import Found, recognised
from genreport.rounds import Round


def models(*ids: str, **more: Any) -> dict[str, Any]:
    return {"data": [{"id": id, **more} for id in ids]}


# what the kinds answer, after their public documentation; vLLM and llama.cpp as met
SERVERS = {
    "vllm": {"/version": {"version": "0.27.1"}, "/v1/models": models("m", owned_by="vllm", max_model_len=2048)},
    "llamacpp": {
        "/props": {"default_generation_settings": {"n_ctx": 512}, "total_slots": 4, "build_info": "b11434"},
        "/v1/models": models("m", owned_by="llamacpp", meta={"n_vocab": 49152}),
    },
    "sglang": {"/get_model_info": {"model_path": "x/m"}, "/v1/models": models("m", owned_by="sglang")},
    "tgi": {"/info": {"model_id": "x/m", "max_total_tokens": 4096, "version": "3.3.4"}},
    "ollama": {
        "/api/version": {"version": "0.12.0"}, "/api/tags": {"models": [{"name": "m"}, {"name": "n"}]},
        "/api/ps": {"models": [{"name": "n"}]}, "/v1/models": models("m", "n", owned_by="library"),
    },
    "openai": {"/v1/models": models("m", owned_by="someone")},
}  # fmt: skip


@contextmanager
def listening(answers: dict[str, Any], status: int = 200) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path in answers
            body = json.dumps(answers.get(self.path)).encode()
            self.send_response(status if known or status != 200 else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_is_recognised_by_what_only_its_kind_answers(kind):
    found = recognised("http://x", SERVERS[kind])
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("answers", [{}, {"/v1/models": None}, {"/props": []}, {"/v1/models": {"data": 3}},
                                     {"/info": {"name": "a shop"}}, {"/version": "1"}])  # fmt: skip
def test_what_is_no_engine_is_left_out(answers):
    assert recognised("http://x", answers) is None


def test_what_a_server_says_of_itself_is_kept():
    assert recognised("u", SERVERS["vllm"]) == Found("u", "vllm", "0.27.1", ["m"], context=2048)
    assert recognised("u", SERVERS["llamacpp"]) == Found("u", "llamacpp", "b11434", ["m"], 49152, 512, 4)
    assert recognised("u", SERVERS["ollama"]).models == ["n", "m"]  # the loaded one first
    assert recognised("u", SERVERS["tgi"]).models == ["x/m"]


@pytest.mark.parametrize("kind", SERVERS)
def test_the_drafted_plan_of_every_kind_passes_the_check(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with listening(SERVERS[kind]) as url:
        made = CliRunner().invoke(main, ["plan", "init", "--url", url])
    assert made.exit_code == 0, made.output
    assert f"{url}: {kind}, " in made.output
    engine = read_plan("plan.yaml").engines[0]
    assert (engine.kind, engine.url, engine.id) == (kind, url, f"{kind}-{'n' if kind == 'ollama' else 'm'}")
    assert CliRunner().invoke(main, ["plan", "check", "plan.yaml"]).exit_code == 0


def test_without_an_address_servers_are_found_where_they_listen_on_this_machine(tmp_path, monkeypatch, port):
    with listening(SERVERS["llamacpp"]) as llama, listening(SERVERS["vllm"]) as vllm:
        monkeypatch.setattr(finding, "PORTS", [int(url.rpartition(":")[2]) for url in (vllm, llama)] + [port])
        made = CliRunner().invoke(main, ["plan", "init", str(tmp_path / "plan.yaml")])
    assert made.exit_code == 0, made.output
    found = [(engine.kind, engine.url) for engine in read_plan(tmp_path / "plan.yaml").engines]
    assert found == [("vllm", vllm), ("llamacpp", llama)]


def test_servers_are_looked_for_where_each_kind_listens_unless_told_otherwise():
    assert {8000, 8080, 30000, 3000, 11434} <= set(finding.PORTS)  # vLLM, llama.cpp, SGLang, TGI, Ollama


def test_a_plan_is_never_overwritten(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("mine")
    with listening(SERVERS["vllm"]) as url:
        result = CliRunner().invoke(main, ["plan", "init", str(file), "--url", url])
    assert result.exit_code == 2
    assert "is there already; name another file" in result.output
    assert file.read_text() == "mine"


def test_where_nothing_answers_a_template_says_what_to_fill_in(tmp_path):
    file = tmp_path / "plan.yaml"
    result = CliRunner().invoke(main, ["plan", "init", str(file), "--url", "http://127.0.0.1:9"])
    assert result.exit_code == 0, result.output
    assert "no engine answers at http://127.0.0.1:9" in result.output
    assert file.read_text().count("FILL IN") == 3
    read_plan(file)
    for command in (["plan", "check", str(file)], ["run", str(file), "--out", str(tmp_path / "round")]):
        refused = CliRunner().invoke(main, command)
        assert refused.exit_code == 2
        told = "still marked FILL IN: line 13, 14; fill in what is meant, and take the mark away"
        assert refused.output == f"{file}: {told}\n"
    assert not (tmp_path / "round").exists()


def test_a_server_that_wants_a_key_is_named_and_its_plan_says_where_the_key_goes(tmp_path, monkeypatch):
    file = tmp_path / "plan.yaml"
    with listening(SERVERS["vllm"], status=401) as url:
        result = CliRunner().invoke(main, ["plan", "init", str(file), "--url", url])
    assert "wants a key: see --api-key-env" in result.output
    assert "# api_key_env: API_KEY" in file.read_text()
    read_plan(file)


def test_no_name_that_a_server_gives_steers_the_terminal(tmp_path):
    with listening({"/v1/models": models("m\x1b]0;title\x07", owned_by="vllm")}) as url:
        result = CliRunner().invoke(main, ["plan", "init", str(tmp_path / "plan.yaml"), "--url", url], color=True)
    assert f"{url}: vllm, m\ufffd]0;title\ufffd\n" in result.output


def test_an_error_that_quotes_an_escape_does_not_steer_the_terminal(tmp_path):
    result = CliRunner().invoke(main, ["check", str(tmp_path / "a\x1b]0;title\x07")], color=True)
    assert result.exit_code == 1
    assert "a\ufffd]0;title\ufffd" in result.output
    assert "\x1b" not in result.output


def test_a_server_is_asked_by_get_alone():
    """The one here answers a HEAD with 501, as some real ones do or worse."""
    with listening(SERVERS["vllm"]) as url:
        assert [(server.kind, server.models) for server in finding.look([url])] == [("vllm", ["m"])]


def test_an_address_is_taken_with_v1_behind_it_and_refused_without_a_scheme(tmp_path):
    file = tmp_path / "plan.yaml"
    with listening(SERVERS["vllm"]) as url:
        refused = CliRunner().invoke(main, ["plan", "init", str(file), "--url", url.removeprefix("http://")])
        assert CliRunner().invoke(main, ["plan", "init", str(file), "--url", f"{url}/v1/"]).exit_code == 0
    assert refused.exit_code == 2
    assert "is no address that begins with http:// or https://" in refused.output
    assert [engine.url for engine in read_plan(file).engines] == [url]


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://h:port", "http://\u2603.example", "https://xn--", "http://h/\x07"]
)
def test_what_is_no_address_is_refused_in_one_line(tmp_path, url):
    refused = CliRunner().invoke(main, ["plan", "init", str(tmp_path / "plan.yaml"), "--url", url])
    assert refused.exit_code == 2
    assert refused.output.startswith(f"--url {printable(url)}: is no address: ")
    assert refused.output.count("\n") == 1
    assert not (tmp_path / "plan.yaml").exists()


def test_a_model_that_a_server_does_not_name_is_marked():
    assert 'model: "MODEL"   # FILL IN' in draft.text([finding.recognised("http://h", {"/version": {"version": "1"}})])


def test_names_that_a_server_gives_can_not_leave_their_place_in_the_plan(tmp_path):
    evil = 'x"\n  - id: evil\n    # \u2028: {}'
    found = [Found("http://h", "openai", evil, [evil, evil + "2"]), Found("http://h", "openai", None, [evil])]
    draft.write(tmp_path / "plan.yaml", found)
    plan = read_plan(tmp_path / "plan.yaml")
    assert [engine.model for engine in plan.engines] == [evil, evil]
    assert len({engine.id for engine in plan.engines}) == 2


def test_a_drafted_load_fits_into_a_short_context():
    text = draft.text([Found("http://h", "vllm", None, ["m"], context=40)])
    assert "    input: 16\n    output: 24\n" in text


def plan_at(folder: Path, **engine: Any) -> Path:
    entry = {"id": "vllm-bf16", "kind": "vllm", "model": "m", "url": "http://127.0.0.1:8000"} | engine
    test = {"id": "t", "kind": "concurrency", "input": 100, "output": 50, "levels": [1, 4], "requests": 8, "warmup": 2,
            "repeats": 3, "fail_on": {"failed": 0}}  # fmt: skip
    file = folder / "plan.yaml"
    file.write_text(json.dumps({"plan": 1, "engines": [entry], "tests": [test]}))
    return file


def test_plan_check_says_what_will_happen_before_anything_starts(tmp_path):
    output = CliRunner().invoke(main, ["plan", "check", str(plan_at(tmp_path))]).output
    assert "engine vllm-bf16: vllm, m, http://127.0.0.1:8000, runs already, baseline" in output
    assert "t/c4: 3 × 8 requests + 2 warm-up, 4 in flight, 100 + 50 tokens" in output
    assert "t fails on: failed 0" in output
    assert "6 repeats, 60 requests with warm-up, 6,000 prompt and 3,000 output tokens" in output
    assert "assumed, nothing was asked" in output


def test_without_an_earlier_round_the_time_is_that_of_the_stated_pace(tmp_path):
    plan = read_plan(plan_at(tmp_path))
    planned = [step for group in plan.launches() for step in ahead.steps(group, plan.seed)]
    # ten requests of 50 tokens: 25 s of answers one after another, a second of prompts
    assert ahead.Pace().seconds(planned[0]) == pytest.approx(26)
    assert ahead.Pace().seconds(planned[1]) == pytest.approx(25 / 4 + 1)


def test_with_an_earlier_round_its_repeats_give_time_and_bytes(tmp_path):
    path = tmp_path / "runs" / "old"
    compose_round(path, tests=(sweep(1, 4),), repeats=2)
    found = Round(path)
    facts = next(
        each.facts for each in found.levels if each.facts.engine == "vllm-bf16" and each.facts.concurrency == 1
    )
    plan = read_plan(plan_at(tmp_path))
    step = next(step for group in plan.launches() for step in ahead.steps(group, plan.seed))
    same = step.level.shape.model_copy(update={"input": facts.shape.input, "output": facts.shape.output})
    object.__setattr__(step.level, "shape", same)
    assert ahead.Pace(found).known([step]) == 1
    assert ahead.Pace(found).bytes(step) > 0
    assert ahead.Pace(found).seconds(step) == pytest.approx(
        10 * sum(ahead._wall(each.facts) / ahead._requests(each.facts) for each in found.levels
                 if (each.facts.engine, each.facts.level) == ("vllm-bf16", "c1")) / 2
    )  # fmt: skip


def test_plan_check_says_every_mistake_with_its_line_and_exits_with_2(tmp_path):
    file = tmp_path / "plan.yaml"
    file.write_text("plan: 1\nengines: []\ntests:\n  - id: x\n    kind: concurency\n")
    result = CliRunner().invoke(main, ["plan", "check", str(file)])
    assert result.exit_code == 2
    assert result.output.count("plan.yaml:") >= 2


def test_elsewhere_leaves_out_what_only_the_measuring_machine_has(tmp_path):
    file = plan_at(tmp_path, model_files="${NOT_SET_HERE}/model.gguf")
    assert CliRunner().invoke(main, ["plan", "check", str(file)]).exit_code == 2
    assert CliRunner().invoke(main, ["plan", "check", str(file), "--elsewhere"]).exit_code == 0


def test_an_absent_round_to_take_the_pace_from_is_one_line(tmp_path):
    result = CliRunner().invoke(main, ["plan", "check", str(plan_at(tmp_path)), "--like", "runs/none"])
    assert result.exit_code == 1
    assert "runs/none: no such round" in result.output


def completed(*words: str) -> list[str]:
    from click.shell_completion import ShellComplete

    found = ShellComplete(main, {}, "genreport", "_GENREPORT_COMPLETE")
    return [item.value for item in found.get_completions(list(words[:-1]), words[-1])]


def test_the_shell_completes_rounds_and_the_figures_of_a_built_site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("round1", "round2"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "round.json").write_text("{}")
    assert completed("check", "runs/r") == ["runs/round1", "runs/round2"]
    assert completed("plan", "check", "plan.yaml", "--like", "") == ["runs/round1", "runs/round2"]
    assert completed("explain", "runs/round1", "c") == []
    (tmp_path / "site/rounds/round1").mkdir(parents=True)
    manifest = {"figures": [{"id": "concurrency.a.c1.failed"}, {"id": "machine.cores"}]}
    (tmp_path / "site/rounds/round1/provenance.json").write_text(json.dumps(manifest))
    assert completed("explain", "runs/round1", "c") == ["concurrency.a.c1.failed"]
    assert completed("plan", "") == ["init", "check"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    result = CliRunner().invoke(main, [], env={"_GENREPORT_COMPLETE": f"{shell}_source"}, prog_name="genreport")
    assert result.exit_code == 0
    assert "_GENREPORT_COMPLETE" in result.output


@pytest.mark.slow
def test_a_real_llama_cpp_is_found_with_its_model_vocabulary_and_slots(tmp_path):
    import socket
    import subprocess
    import sys
    import time

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "genreport.embedded", "--port", str(port), "--slots", "2"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
        while not (found := finding.look([url])) and time.monotonic() < deadline:
            time.sleep(0.5)
        assert [(each.kind, each.models, each.vocabulary, each.slots) for each in found] == [
            ("llamacpp", ["smollm2"], 49152, 2)
        ]
    finally:
        server.terminate()
        server.wait()
