"""The whole way with a real engine: the embedded llama.cpp is started, measured, sealed, published and audited."""

from __future__ import annotations

import socket
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from genreport.audit import audit
from genreport.cli import main
from genreport.embedded import model_file
from genreport.engines import llamacpp
from genreport.figures import compute
from genreport.rounds import Round, check

pytestmark = pytest.mark.slow

PLAN = """\
plan: 1
seed: 7
engines:
  - id: llamacpp
    kind: llamacpp
    model: smollm2
    precision: Q4_1
    url: http://127.0.0.1:{port}
    launch:
      command: [{python}, -m, genreport.embedded, --port, "{port}"]
      ready_s: 120
    model_files: [{model}]
    variants:
      - {{id: one-slot, flags: [--slots, "1"]}}
      - {{id: two-slots, flags: [--slots, "2"]}}
tests:
  - id: concurrency
    kind: concurrency
    input: 16
    output: 8
    levels:
      - {{concurrency: 1, requests: 3}}
      - {{concurrency: 2, requests: 4}}
    repeats: 2
    warmup: 1
  - {{id: talk, kind: conversation, turns: 3, prefix: 32, input: 8, output: 8, levels: [1], conversations: 2, repeats: 1}}
  - {{id: soak, kind: soak, input: 16, output: 8, concurrency: 1, duration_s: 8}}
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    (folder / "plan.yaml").write_text(PLAN.format(port=free_port(), python=sys.executable, model=model_file()))
    arguments = ["run", str(folder / "plan.yaml"), "--out", str(folder / "runs" / "real")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return folder


def test_the_round_is_sealed_whole_and_publishable(recorded):
    path = recorded / "runs" / "real"
    assert list(check(path)) == []
    round = Round(path)
    assert round.unsealed == []
    text = "\n".join(round.text(file) for file in round.evidence())
    for private in (str(recorded), str(Path.home()) + "/", str(Path(sys.prefix))):
        assert private not in text, private


def test_every_request_counts_its_tokens_and_agrees_with_the_server(recorded):
    ledger = compute(Round(recorded / "runs" / "real")).ledger
    for engine in ("llamacpp-one-slot", "llamacpp-two-slots"):
        for level in ("c1", "c2"):
            scope = f"concurrency.{engine}.{level}"
            assert ledger[f"{scope}.failed"].value == 0
            assert ledger[f"{scope}.short_outputs"].value == 0
            for name in ("tokens_sum", "prompt_tokens", "server_tokens", "server_time", "stamps", "engine_requests",
                         "engine_prompt_tokens", "engine_generation_tokens"):  # fmt: skip
                found = ledger[f"{scope}.check.{name}"]
                # llama.cpp counts no requests
                assert (found.missing, found.value) == ((True, None) if name == "engine_requests" else (False, 0)), (
                    found
                )


def test_a_later_turn_is_read_from_what_the_server_kept(recorded):
    round = Round(recorded / "runs" / "real")
    levels = [level for level in round.levels if level.facts.kind == "conversation"]
    assert len(levels) == 2
    for level in levels:
        sent = sorted((r for r in round.requests(level) if not r.warmup), key=lambda r: r.index)
        assert [(r.conversation, r.turn, r.failure) for r in sent] == [(n, k, None) for n in range(2) for k in range(3)]
        for before, later in pairwise(sent):
            if later.turn:
                assert later.usage.prompt_tokens > before.usage.prompt_tokens
                assert later.usage.cached_tokens > before.usage.prompt_tokens // 2


def test_a_soak_knows_the_memory_of_the_server(recorded):
    ledger = compute(Round(recorded / "runs" / "real")).ledger
    assert ledger["soak.llamacpp-one-slot.c1.r1.part6.memory"].value > 50e6
    assert ledger["soak.llamacpp-one-slot.c1.failed"].value == 0


def test_the_start_up_log_gives_the_pool(recorded):
    ledger = compute(Round(recorded / "runs" / "real")).ledger
    assert ledger["engine.llamacpp-one-slot.pool_tokens"].value == 2048
    assert ledger["engine.llamacpp-two-slots.pool_tokens"].value == 4096
    assert ledger["engine.llamacpp-two-slots.kv_bytes_per_token"].value == 23040


def test_its_site_is_built_and_holds(recorded, monkeypatch):
    monkeypatch.chdir(recorded)
    result = CliRunner().invoke(main, ["build", "runs/real"])
    assert result.exit_code == 0, result.output
    report = audit("site")
    assert report.failures == []
    assert report.counts["figures recomputed"] > 500
    again = CliRunner().invoke(main, ["build", "runs/real"])
    assert "up to date" in again.output


def test_what_is_sealed_is_not_measured_again(recorded):
    before = (recorded / "runs" / "real" / "seal.json").read_bytes()
    arguments = ["run", str(recorded / "plan.yaml"), "--out", str(recorded / "runs" / "real"), "--resume"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    assert (recorded / "runs" / "real" / "seal.json").read_bytes() == before


def chat(model: str, prompt: list[int] | str, output: int, seed: int) -> dict:
    """A body whose stream has no usage: llama.cpp leaves it out of a chat that did not ask for it."""
    asked = {"role": "user", "content": f"Tell me of the number {seed % 97}, and of {prompt}"}
    return {"model": model, "messages": [asked], "max_tokens": output, "temperature": 0, "seed": seed, "stream": True}


def test_t10_a_real_server_counts_the_answers_of_a_stream_without_usage(tmp_path, monkeypatch):
    monkeypatch.setattr(llamacpp, "body", chat)
    plan = PLAN.replace("output: 8", "output: 40").replace("repeats: 2", "repeats: 1")
    (tmp_path / "plan.yaml").write_text(plan.format(port=free_port(), python=sys.executable, model=model_file()))
    result = CliRunner().invoke(main, ["run", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "real")])
    assert result.exit_code == 0, result.output
    round = Round(tmp_path / "real")
    assert list(check(tmp_path / "real")) == []
    for level in round.levels:
        assert level.facts.tokenizer == "/tokenize"
        for request in (request for request in round.requests(level) if not request.warmup):
            assert (request.failure, request.usage, request.tokens) == (None, None, None)
            generated = request.server["timings"]["predicted_n"]
            # an end of sequence has no text, and a text may be cut into tokens in another way than it was made of
            assert abs(request.retokenized - generated) <= 1 + generated // 10
    assert compute(round).ledger["concurrency.llamacpp-two-slots.c2.output_throughput"].value > 0
