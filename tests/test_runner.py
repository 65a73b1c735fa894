"""Whole rounds against a small server in a process of its own."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import platform
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from gguf import GGUFWriter

from genreport import corpus, rounds, runner
from genreport.engines import server
from genreport.errors import EngineError, PlanError, RoundError, Tampered
from genreport.evaluate import Evidence, recompute
from genreport.figures import compute
from genreport.plan import read_plan
from genreport.progress import Silent
from genreport.records import Request
from genreport.rounds import Level, Round, RoundWriter
from genreport.runner import run
from genreport.session import steps

FAKE = Path(__file__).with_name("fake_engine.py")
CITED = {name: {"value": 1e10, "source": "data sheet"} for name in ("bandwidth", "flops")}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SETTLE_POLL_S", 0.01)


def engine(port: int, *options: str, **fields: Any) -> dict[str, Any]:
    launch = {"command": [sys.executable, str(FAKE), str(port), *options], "ready_s": 10, "stop_s": 5}
    plain = {"id": "fake", "kind": "vllm", "model": "tiny", "url": f"http://127.0.0.1:{port}", "vocabulary": 5000}
    return plain | {"ceilings": CITED, "launch": launch} | fields


def sweep(**fields: Any) -> dict[str, Any]:
    test = {"id": "concurrency", "kind": "concurrency", "input": 8, "output": 5, "levels": [1, 4], "requests": 6}
    return test | {"repeats": 2, "warmup": 2} | fields


def plan_of(folder: Path, *engines: dict[str, Any], tests: list[dict[str, Any]] | None = None) -> Path:
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump({"plan": 1, "seed": 3, "engines": list(engines), "tests": tests or [sweep()]}))
    return path


def measured(plan: Path, out: Path, **options: Any) -> Round:
    run(plan, out, progress=options.pop("progress", None) or Silent(), **options)
    return Round(out)


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            data = file.read_bytes()
            yield file.name, (gzip.decompress(data) if file.suffix == ".gz" else data).decode()


def stored(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def failures(found: Round, level: Level) -> list[str]:
    return [request.failure.kind for request in found.requests(level) if request.failure and not request.warmup]


def test_a_plan_becomes_a_sealed_round_that_checks_clean(tmp_path: Path, port: int) -> None:
    found = measured(plan_of(tmp_path, engine(port)), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    assert found.unsealed == []
    assert not listens(port)
    assert [level.path.removeprefix("levels/") for level in found.levels] == found.head.planned
    for level in found.levels:
        requests = found.requests(level)
        assert [request.warmup for request in requests].count(True) == 2
        assert all(request.usage.prompt_tokens == 8 and request.tokens == [1] * 5 + [0, 0] for request in requests)
        assert level.facts.remarks == []
        assert set(level.facts.files) == {
            rounds.REQUESTS, rounds.BEFORE, rounds.AFTER, rounds.SAMPLES, rounds.ENGINE_LOG,
        }  # fmt: skip


def test_levels_are_interleaved_over_repeats(tmp_path: Path, port: int) -> None:
    found = measured(plan_of(tmp_path, engine(port)), tmp_path / "round")
    in_time = sorted(found.levels, key=lambda level: level.facts.origin_unix_us)
    assert [(level.facts.level, level.facts.repeat) for level in in_time] == [
        ("c1", 1),
        ("c4", 1),
        ("c1", 2),
        ("c4", 2),
    ]


def test_counters_and_log_hold_exactly_the_measured_requests(tmp_path: Path, port: int) -> None:
    found = measured(plan_of(tmp_path, engine(port)), tmp_path / "round")
    for level in found.levels:
        generated = [
            float(line.split()[1])
            for file in (rounds.BEFORE, rounds.AFTER)
            for line in found.text(level.file(file)).splitlines()
            if line.startswith("vllm:generation_tokens_total")
        ]
        assert generated[1] - generated[0] == 6 * 5
        assert found.text(level.file(rounds.ENGINE_LOG)).count("served") == 6
        assert level.facts.before_us < min(r.due_us for r in found.requests(level) if not r.warmup)
        assert level.facts.after_us > max(r.end_us for r in found.requests(level))


def test_a_launch_is_described_as_the_plan_wrote_it(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_WORD", "expanded")
    launch = engine(port, "--say", "${FAKE_WORD}")
    found = measured(plan_of(tmp_path, launch, tests=[sweep(flags=["--gap-s", "0.002"])]), tmp_path / "round")
    facts = found.launches["fake+concurrency/1"]
    assert facts.command[-4:] == ["--say", "${FAKE_WORD}", "--gap-s", "0.002"]
    assert (facts.test, facts.flags, facts.version) == ("concurrency", ["--gap-s", "0.002"], "9.9.9")
    assert facts.endpoints["/v1/models"]["data"][0]["id"] == "tiny"
    assert found.text(found.start_log_file("fake+concurrency/1")).startswith("KV cache size: 1,000 tokens")


def test_every_engine_gets_the_same_prompts_and_no_level_the_same_twice(tmp_path: Path, port: int) -> None:
    plan = read_plan(plan_of(tmp_path, engine(port), engine(port, id="other")))
    one, two = ([step.seed for step in steps(group, plan.seed)] for group in plan.launches())
    assert one == two
    assert len(set(one)) == len(one)


class Interrupts(Silent):
    """Presses Ctrl-C when so many levels are done."""

    def __init__(self, after: int, number: int = signal.SIGINT) -> None:
        self.left, self.number = after, number

    def level(self, key: str, engine: str, requests: int, work: float) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), self.number)


@pytest.fixture
def hang_up() -> Iterator[Callable[[Any], None]]:
    """Sets how this process takes a lost terminal, which the one that runs the tests may have changed."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda how: signal.signal(signal.SIGHUP, how)
    signal.signal(signal.SIGHUP, before)


def test_a_hang_up_that_was_to_be_ignored_stays_ignored(hang_up: Callable[[Any], None]) -> None:
    hang_up(signal.SIG_IGN)
    assert signal.SIGHUP not in runner._endings()
    hang_up(signal.SIG_DFL)
    assert signal.SIGHUP in runner._endings()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_round_keeps_what_is_done_and_goes_on(
    tmp_path: Path, port: int, number: int, hang_up: Callable[[Any], None]
) -> None:
    hang_up(signal.SIG_DFL)
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    with pytest.raises(KeyboardInterrupt):
        measured(plan, out, progress=Interrupts(2, number))
    assert not listens(port)
    broken = Round(out)
    assert not broken.sealed
    assert len(broken.levels) == 2
    before = {level.path: broken.bytes(level.facts_file) for level in broken.levels}
    found = measured(plan, out, resume=True)
    assert list(rounds.check(out)) == []
    assert found.unsealed == []
    assert {path: found.bytes(f"{path}/{rounds.FACTS}") for path in before} == before
    assert sorted(found.launches) == ["fake/1", "fake/2"]


def test_a_finished_round_is_never_measured_again(tmp_path: Path, port: int) -> None:
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    measured(plan, out)
    before = stored(out)
    measured(plan, out, resume=True)
    assert stored(out) == before


def test_an_engine_that_dies_in_a_level_is_started_again_for_the_next(tmp_path: Path, port: int) -> None:
    found = measured(plan_of(tmp_path, engine(port, "--die-after", "10")), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    assert found.unsealed == []
    in_time = sorted(found.levels, key=lambda level: level.facts.origin_unix_us)
    assert [len(failures(found, level)) for level in in_time] == [0, 6 - 0, 0, 6 - 0]
    assert set(failures(found, in_time[1])) <= {"connect", "stream", "protocol"}
    assert any("the engine died: exit code -9, last log line: fatal" in text for text in in_time[1].facts.remarks)
    assert in_time[1].file(rounds.AFTER) is None
    assert [level.facts.launch for level in in_time] == ["fake/1", "fake/1", "fake/2", "fake/2"]


def test_an_engine_that_keeps_dying_is_given_up_and_the_others_go_on(tmp_path: Path, port: int) -> None:
    plan = plan_of(tmp_path, engine(port, "--die-after", "0"), engine(port, id="sound"))
    out = tmp_path / "round"
    with pytest.raises(EngineError, match=r"1 of 8 repeats were not measured: fake given up"):
        measured(plan, out)
    found = Round(out)
    assert list(rounds.check(out)) == []
    assert [level.facts.engine for level in found.levels] == ["fake"] * 3 + ["sound"] * 4


def test_an_engine_that_is_never_ready_is_given_up_at_once(tmp_path: Path, port: int) -> None:
    impatient = engine(port, "--never-ready")
    impatient["launch"]["ready_s"] = 0.5
    plan, out = plan_of(tmp_path, impatient, engine(port, id="sound")), tmp_path / "round"
    with pytest.raises(EngineError, match=r"4 of 8 .* fake given up"):
        measured(plan, out)
    assert list(Round(out).launches) == ["sound/1"]
    assert not listens(port)
    sound = {name: data for name, data in stored(out).items() if name.startswith("levels/")}
    with pytest.raises(EngineError, match="fake given up"):
        measured(plan, out, resume=True)
    assert {name: data for name, data in stored(out).items() if name.startswith("levels/")} == sound


def test_a_taken_port_and_a_wrong_model_are_refused(tmp_path: Path, port: int) -> None:
    said = Heard()
    with pytest.raises(EngineError, match=r"fake given up \(serves tiny, not other\); mend the engine"):
        measured(plan_of(tmp_path, engine(port, model="other")), tmp_path / "one", progress=said)
    assert any("fake: serves tiny, not other" in line for line in said.lines)
    with socket.create_server(("127.0.0.1", port)):
        said = Heard()
        with pytest.raises(EngineError):
            measured(plan_of(tmp_path, engine(port)), tmp_path / "two", progress=said)
    assert any("something answers at" in line for line in said.lines)


def test_an_engine_that_is_ready_but_never_alive_is_given_up(tmp_path: Path, port: int) -> None:
    said = Heard()
    plan = plan_of(tmp_path, engine(port, "--healthy", "1"), engine(port, id="sound"))
    with pytest.raises(EngineError, match=r"4 of 8 .* fake given up"):
        measured(plan, tmp_path / "round", progress=said)
    assert said.lines.count("fake: was ready, and gone before its first level") == 3
    assert sorted(Round(tmp_path / "round").launches) == ["fake/1", "fake/2", "fake/3", "sound/1"]


class Heard(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_secrets_and_paths_of_the_machine_reach_no_file(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "hush-hush-4711")
    secretive = engine(port, "--key", "${FAKE_API_KEY}", "--say", "${FAKE_API_KEY}", api_key_env="FAKE_API_KEY")
    secretive["launch"]["env"] = {"OTHER_TOKEN": "very-private-0815"}
    out = tmp_path / "round"
    found = measured(plan_of(tmp_path, secretive), out)
    assert all(not failures(found, level) for level in found.levels)
    logs = found.text(found.levels[0].file(rounds.ENGINE_LOG))
    assert "served" in logs
    hidden = ["hush-hush", "very-private", "/home/someone", str(tmp_path), str(FAKE.parent), sys.prefix]
    hidden += [name for name in [platform.node()] if len(name) > 2 and name != "localhost"]
    for name, text in texts(out):
        assert [word for word in hidden if word in text] == [], name


SECRET = "hush-hush-4711"


def model_called(path: Path, name: str) -> Path:
    writer = GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_tensor(f"{name}.weight", np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def planted(port: int, model: Path, *options: str, **fields: Any) -> dict[str, Any]:
    """An engine with the secret in every place of the plan and of the server that can hold one."""
    key = "${PLANTED_KEY}"
    given = ["--key", key, "--say", key, "--leak", key, "--model", key, *options]
    cited = {name: {"value": 1e10, "source": key} for name in CITED}
    everywhere = engine(port, *given, api_key_env="PLANTED_KEY", model=key, precision=key, model_files=str(model))
    everywhere |= {"sampling": {"stop": key}, "ceilings": cited, **fields}
    everywhere["launch"] |= {"env": {"WORDS": key}, "cpus": "${PLANTED_CORES}"}
    return everywhere


@pytest.fixture
def planted_round(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> Round:
    monkeypatch.setenv("PLANTED_KEY", SECRET)
    monkeypatch.setenv("PLANTED_CORES", str(min(os.sched_getaffinity(0))))
    model = model_called(tmp_path / f"{SECRET}.gguf", SECRET)
    plan = plan_of(
        tmp_path,
        planted(port, model, "--fail-every", "5", "--die-after", "12"),
        planted(port, model, id="other", kind="llamacpp"),
        tests=[sweep(repeats=1, flags=["--gap-s", "0.002"])],
    )
    plan.write_text(f"{plan.read_text()}not_measured: ['{SECRET}']\n# {SECRET}\n")
    return measured(plan, tmp_path / f"round of {SECRET}")


def test_a_secret_planted_in_every_field_reaches_no_file(planted_round: Round) -> None:
    found = planted_round
    assert list(rounds.check(found.path)) == []
    assert "<secret>" in found.head.name
    for name, text in texts(found.path):
        assert [word for word in (SECRET, SECRET[:7], SECRET[-7:]) if word in f"{name}\n{text}"] == [], name
    # it was there to be found
    launch = found.launches["fake+concurrency/1"]
    told = json.dumps(launch.endpoints) + found.text(found.start_log_file("fake+concurrency/1")) + str(launch.version)
    assert told.count("<secret>") >= 5
    model = found.models[launch.model_facts]
    assert (model.files[0].name, model.architecture.name) == ("<secret>.gguf", "<secret>")
    assert model.tensors[0].name == "<secret>.weight"
    requests = [request for level in found.levels for request in found.requests(level)]
    whole = [request for request in requests if not request.failure]
    assert {request.finish for request in whole} == {"<secret>"}
    assert all(request.text.startswith("<secret> a") for request in whole)
    assert [request.server for request in whole] == [{"metrics": {"<secret>": 1}}] * len(whole)
    assert any("fatal: out of luck<secret>" in remark for level in found.levels for remark in level.facts.remarks)
    first = found.levels[0]
    assert all("<secret>" in found.text(first.file(file)) for file in (rounds.BEFORE, rounds.AFTER, rounds.ENGINE_LOG))


def test_what_a_cut_would_tear_is_redacted_first(planted_round: Round) -> None:
    requests = [request for level in planted_round.levels for request in planted_round.requests(level)]
    messages = {request.failure.message for request in requests if request.failure and request.failure.kind == "http"}
    assert messages == {"x" * 1990 + " <secret> "}


def test_what_the_plan_says_is_written_as_it_says_it(planted_round: Round) -> None:
    found = planted_round
    assert found.levels[0].facts.sampling == {"temperature": 0, "ignore_eos": True, "stop": "${PLANTED_KEY}"}
    for launch in found.launches.values():
        assert (launch.model, launch.precision, launch.cpus) == ("${PLANTED_KEY}", "${PLANTED_KEY}", "${PLANTED_CORES}")
        assert launch.env == {"WORDS": "${PLANTED_KEY}"}
    ceilings = [ceiling for known in found.machine.ceilings.values() for ceiling in known.values()]
    assert [ceiling.source for ceiling in ceilings] == ["${PLANTED_KEY}"] * 4


def test_a_user_called_like_the_engine_changes_no_id_and_no_counter(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genreport.redact.getpass.getuser", lambda: "vllm")
    monkeypatch.setattr("genreport.redact.platform.node", lambda: "concurrency")
    plain = engine(port, "--say", "vllm@concurrency")
    found = measured(plan_of(tmp_path, plain, tests=[sweep(repeats=1)]), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    assert (found.launches["fake/1"].kind, found.levels[0].facts.test) == ("vllm", "concurrency")
    assert found.plan["engines"][0]["kind"] == "vllm"
    assert "\nvllm:prompt_tokens_total{" in found.text(found.levels[0].file(rounds.BEFORE))
    assert "with <user>@<host>\n" in found.text(found.levels[0].file(rounds.ENGINE_LOG))


@pytest.mark.parametrize("broken", ["_write", "mend"])
def test_a_beginning_that_was_cut_short_is_in_nobodys_way(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    plan, out = plan_of(tmp_path, engine(port), tests=[sweep(repeats=1)]), tmp_path / "round"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RoundWriter, broken, killed)
        with pytest.raises(KeyboardInterrupt):
            measured(plan, out)
    assert (out / "plan.yaml.part").is_file()
    assert list(rounds.check(measured(plan, out, resume=True).path)) == []
    assert not list(out.rglob("*.part"))


@pytest.fixture
def running(port: int, tmp_path: Path) -> Iterator[Path]:
    log = tmp_path / "running.log"
    with log.open("w") as output:
        child = subprocess.Popen([sys.executable, str(FAKE), str(port), "--key", "a-key-of-its-own"], stdout=output)
    try:
        while not listens(port):
            assert child.poll() is None
        yield log
    finally:
        child.kill()
        child.wait()


def test_a_server_that_runs_already_is_measured_with_its_log_and_left_alone(
    tmp_path: Path, port: int, running: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "a-key-of-its-own")
    there = engine(port, api_key_env="FAKE_API_KEY", log_path=str(running), ceilings=None)
    del there["launch"], there["ceilings"]
    found = measured(plan_of(tmp_path, there), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    facts = found.launches["fake/1"]
    assert (facts.command, facts.flags, facts.env) == (None, [], {})
    assert found.text(found.start_log_file("fake/1")).startswith("KV cache size")
    assert all(found.text(level.file(rounds.ENGINE_LOG)).count("served") == 6 for level in found.levels)
    assert listens(port)


def test_a_server_out_of_reach_is_given_up(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genreport.session.launch.REACH_S", 0.1)
    nowhere = engine(port)
    del nowhere["launch"]
    said = Heard()
    with pytest.raises(EngineError, match="4 of 4"):
        measured(plan_of(tmp_path, nowhere), tmp_path / "round", progress=said)
    assert "did not answer 200 within 0.1 s" in "\n".join(said.lines)


def test_a_plain_server_is_measured_without_counters(tmp_path: Path, port: int) -> None:
    plain = engine(port, kind="openai", prompt="ids")
    found = measured(plan_of(tmp_path, plain, tests=[sweep(repeats=1)]), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    assert all(set(level.facts.files) == {rounds.REQUESTS, rounds.ENGINE_LOG, rounds.SAMPLES} for level in found.levels)


def test_t10_answers_without_a_count_are_counted_by_the_servers_own_tokenizer_after_the_level(
    tmp_path: Path, port: int
) -> None:
    found = measured(plan_of(tmp_path, engine(port, "--no-usage", "--stop-at", "3")), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    for level in found.levels:
        requests = [request for request in found.requests(level) if not request.warmup]
        assert [(r.usage, r.tokens, r.retokenized, r.finish) for r in requests] == [(None, None, 3, "length")] * 6
        assert level.facts.tokenizer == "/tokenize"
        assert level.facts.remarks == [
            "6 answers came without a token count; /tokenize counted 6 of them afterwards",
        ]
        assert found.text(level.file(rounds.ENGINE_LOG)).count("served") == 6
    figures = compute(found)
    at = "concurrency.fake.c4"
    tokens, itl = figures.ledger[f"{at}.output_tokens"], figures.ledger[f"{at}.itl.p50"]
    assert (tokens.value, figures.ledger[f"{at}.short_outputs"].value) == (2 * 6 * 3, 12)
    assert {"short", "retokenized"} <= {flag.kind for flag in figures.flags if flag.scope == at}
    for name in ("output_tokens", "output_throughput", "tpot.mean"):
        assert "tokens_retokenized" in figures.ledger[f"{at}.{name}"].notes
    assert itl.notes == ("tokens_per_event_unknown",)  # the count says nothing of single events
    assert itl.value == figures.ledger[f"{at}.gap.p50"].value
    manifest = figures.ledger.manifest("round", {})
    known = {figure["id"]: figure for figure in manifest["figures"]}
    evidence = Evidence(found.bytes, manifest["columns"])
    for name in ("output_throughput", "tpot.p99", "short_outputs", "output_tokens_share"):
        figure = known[f"{at}.{name}"]
        assert recompute(figure, evidence, known) == pytest.approx(figure["value"])


@pytest.mark.parametrize(
    ("kind", "options", "why"),
    [
        ("vllm", ["--no-tokenize"], "/tokenize counted 0 of them afterwards"),
        ("openai", [], "a server of kind openai cannot be asked"),
    ],
)
def test_t10_where_nobody_can_count_an_answer_throughput_is_missing_and_the_level_says_why(
    tmp_path: Path, port: int, kind: str, options: list[str], why: str
) -> None:
    entry = engine(port, "--no-usage", *options, kind=kind, prompt="ids")
    found = measured(plan_of(tmp_path, entry), tmp_path / "round")
    level = found.levels[0]
    assert level.facts.tokenizer is None
    assert level.facts.remarks == [f"6 answers came without a token count; {why}"]
    assert b"retokenized" not in (found.path / level.requests_file).read_bytes()
    ledger = compute(found).ledger
    for name in ("output_tokens", "output_throughput", "tpot.p50", "short_outputs"):
        figure = ledger[f"concurrency.fake.c1.{name}"]
        assert figure.value is None
        assert figure.reason


def test_a_text_that_was_redacted_is_not_counted_again(tmp_path: Path) -> None:
    """What is written is not what was generated."""
    writer = RoundWriter(tmp_path, lambda value: value.replace("secret", "…") if isinstance(value, str) else value)
    level = writer.level("a/b/c/r1")
    plain = Request(index=0, seed=1, asked_input=1, asked_output=1, due_us=0, t0_us=0, gaps_us=[1], kinds="t", end_us=1)
    texts = ("one two", "a secret", "")
    for index, text in enumerate(texts):
        level.request(plain.model_copy(update={"index": index, "text": text}))
    level.request(plain.model_copy(update={"text": "warm", "warmup": True}))
    level.request(plain.model_copy(update={"text": "thought", "kinds": "k"}))
    level.request(plain.model_copy(update={"text": "counted", "tokens": [1]}))
    assert (level.uncounted, level.uncountable, list(level.texts())) == ([0], 3, [(0, "one two")])
    before = level.path.joinpath(rounds.REQUESTS).read_bytes().splitlines()
    level.recount({0: 2})
    level.request(plain.model_copy(update={"index": 9}))
    level.abandon()
    after = level.path.joinpath(rounds.REQUESTS).read_bytes().splitlines()
    assert (after[1:6], len(after)) == (before[1:], 7)
    assert Request.model_validate_json(after[0]).model_dump() == Request.model_validate_json(before[0]).model_dump() | {
        "retokenized": 2
    }


def test_a_setting_of_null_takes_a_field_out_of_the_request(tmp_path: Path, port: int) -> None:
    bare = engine(port, sampling={"ignore_eos": None, "top_k": 1})
    found = measured(plan_of(tmp_path, bare, tests=[sweep(repeats=1)]), tmp_path / "round")
    assert found.levels[0].facts.sampling == {"temperature": 0, "ignore_eos": None, "top_k": 1}


def test_nothing_is_written_for_a_plan_with_mistakes(tmp_path: Path, port: int) -> None:
    plan = plan_of(tmp_path, engine(port, kind="vlm"))
    with pytest.raises(PlanError):
        measured(plan, tmp_path / "round")
    assert not (tmp_path / "round").exists()


def test_a_folder_that_holds_something_is_never_written_into(tmp_path: Path, port: int) -> None:
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(RoundError, match="neither a round nor empty"):
        measured(plan, out)
    (out / "mine.txt").unlink()
    measured(plan, out)
    with pytest.raises(RoundError, match="holds a round already"):
        measured(plan, out)
    plan.write_text(plan.read_text().replace("seed: 3", "seed: 4"))
    with pytest.raises(RoundError, match="begun with another plan"):
        measured(plan, out, resume=True)


class Intrudes(Silent):
    """Starts a second recorder of the same round when the first repeat is done."""

    def __init__(self, plan: Path, out: Path) -> None:
        self.plan, self.out, self.refused = plan, out, []

    def done(self, remarks: list[str]) -> None:
        for resume in (False, True):
            with pytest.raises(RoundError) as refused:
                run(self.plan, self.out, resume=resume, progress=Silent())
            self.refused.append(str(refused.value))


def test_a_round_is_recorded_by_one_process_at_a_time(tmp_path: Path, port: int) -> None:
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    intruder = Intrudes(plan, out)
    found = measured(plan, out, progress=intruder)
    assert set(intruder.refused) == {
        f"{out}: is being recorded by another process; wait until it is done, or name another --out"
    }
    assert len(found.levels) == 4
    assert list(rounds.check(out)) == []


@pytest.mark.parametrize(
    "file", ["machine.json", "launches/fake/1/launch.json", "levels/concurrency/fake/c1/r1/requests.jsonl"]
)
def test_a_round_that_was_changed_does_not_go_on(tmp_path: Path, port: int, file: str) -> None:
    plan, out = plan_of(tmp_path, engine(port), engine(port, "--never-ready", id="absent")), tmp_path / "round"
    plan.write_text(plan.read_text().replace("ready_s: 10", "ready_s: 0.5"))
    with pytest.raises(EngineError, match="absent given up"):
        measured(plan, out)
    (out / file).write_text((out / file).read_text() + " ")
    before = stored(out)
    with pytest.raises(Tampered, match=rf"{file}: changed since it was sealed; restore the file"):
        measured(plan, out, resume=True)
    assert stored(out) == before


def test_a_round_does_not_go_on_with_another_trace(tmp_path: Path, port: int) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input,output\n0,8,5\n0.01,8,5\n")
    replay = {"id": "replay", "kind": "open", "trace": str(trace), "repeats": 2, "warmup": 0}
    plan, out = plan_of(tmp_path, engine(port), tests=[replay]), tmp_path / "round"
    with pytest.raises(KeyboardInterrupt):
        measured(plan, out, progress=Interrupts(1))
    (level,) = Round(out).levels
    data = trace.read_bytes()
    assert level.facts.trace.model_dump() == {
        "name": "trace.csv", "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)
    }  # fmt: skip
    trace.write_text("arrival_s,input,output\n0,9,5\n0.01,9,5\n")
    corpus._opened.cache_clear()
    with pytest.raises(RoundError, match=r"trace\.csv: is not the file that replay/fake/trace/r1 was measured with"):
        measured(plan, out, resume=True)


def test_a_level_says_which_part_its_prompts_share(tmp_path: Path, port: int) -> None:
    shared = {"id": "shared", "kind": "open", "input": 8, "output": 5, "rates": [50], "requests": 4, "repeats": 1,
              "warmup": 0, "shared_prefix": 0.5}  # fmt: skip
    found = measured(plan_of(tmp_path, engine(port), tests=[shared, sweep(repeats=1)]), tmp_path / "round")
    assert [level.facts.shared_prefix for level in found.levels] == [0.5, None, None]


def test_a_round_does_not_go_on_on_another_machine(tmp_path: Path, port: int) -> None:
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    with pytest.raises(KeyboardInterrupt):
        measured(plan, out, progress=Interrupts(1))
    machine = json.loads((out / rounds.MACHINE).read_text())
    (out / rounds.MACHINE).write_text(json.dumps(machine | {"cpu": "another"}))
    with pytest.raises(RoundError, match="another machine"):
        measured(plan, out, resume=True)
