"""Figures of whole composed rounds: what is there is right, what is not is missing with a reason."""

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from compose import ENGINES, LLAMA, VLLM, Engine, Load, Test, compose_round, lengths, sweep
from genreport.evaluate import Evidence, recompute
from genreport.figures import Figures, compute
from genreport.provenance import Line, Lines, Pointer, Rows, Samples
from genreport.records import Failure, Request
from genreport.rounds import Round

L = "concurrency.vllm-bf16.c4"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    tests = (Test(), lengths(64, 128, 256), Test("cliff", "cliff", (Load("long", 8, 256, 32),), ("vllm-bf16",)))
    slos = [{"id": "snappy", "figure": "ttft", "percentile": "p99", "below_ms": 90},
            {"id": "flowing", "figure": "tpot", "percentile": "p99", "below_ms": 30}]  # fmt: skip
    return compute(compose_round(tmp_path_factory.mktemp("composed") / "round", tests=tests, slos=slos))


def value(figures: Figures, id: str) -> float:
    return figures.ledger[id].value


def test_a_percentile_is_that_of_all_repeats_and_names_its_records(whole: Figures) -> None:
    q = whole.ledger[f"{L}.ttft.p90"]
    (rows,) = q.sources
    ttfts = {
        (file, line): (request.gaps_us[0] / 1e6)
        for file in rows.files
        for line, request in enumerate(read(whole.round, file), 1)
        if not request.warmup
    }
    assert q.n == rows.count == len(ttfts) == 32
    assert q.value == pytest.approx(np.percentile(list(ttfts.values()), 90))
    low, high = sorted(ttfts[pick] for pick in rows.picks)
    assert low <= q.value <= high


def read(round: Round, file: str) -> list[Request]:
    return [Request.model_validate_json(line) for line in round.text(file).split("\n") if line]


def test_a_rate_is_all_tokens_over_all_windows(whole: Figures) -> None:
    tokens = [value(whole, f"{L}.r{k}.output_tokens") for k in (1, 2)]
    windows = [value(whole, f"{L}.r{k}.window_s") for k in (1, 2)]
    assert value(whole, f"{L}.output_throughput") == pytest.approx(sum(tokens) / sum(windows))
    assert value(whole, f"{L}.output_throughput.min") <= value(whole, f"{L}.output_throughput")


def test_requests_in_flight_obey_littles_law(whole: Figures) -> None:
    assert 0.9 < value(whole, f"{L}.in_flight_ratio") <= 1.0001


def test_every_source_leads_to_a_line_that_exists(whole: Figures) -> None:
    for q in whole.ledger:
        for source in q.sources:
            for file, line in cited(source):
                assert 1 <= line <= len(whole.round.text(file).split("\n")), q.id


def cited(source: object) -> list[tuple[str, int]]:
    match source:
        case Rows(picks=picks):
            return list(picks)
        case Line(file, line) | Pointer(file=file, line=line):
            return [(file, line)]
        case Lines(file, first, last):
            return [(file, first), (file, last)]
        case Samples(file=file, lines=lines):
            return [(file, line) for line in lines]
    raise AssertionError(source)


def test_a_stated_fact_stands_on_the_line_it_names(whole: Figures) -> None:
    (line,) = whole.ledger["engine.vllm-bf16.pool_tokens"].sources
    text = whole.round.text(line.file).split("\n")[line.line - 1]
    assert re.search(line.pattern, text)[1] == "46,592"


def test_a_pointer_names_the_line_of_its_value(whole: Figures) -> None:
    (source,) = whole.ledger[f"{L}.input"].sources
    assert '"input": 64' in whole.round.text(source.file).split("\n")[source.line - 1]


def test_the_engines_counts_agree_with_the_clients(whole: Figures) -> None:
    checks = [q for q in whole.ledger if ".check." in q.id and not q.missing]
    assert checks
    assert all(q.value == 0 for q in checks)


def test_curves_that_cross_say_where(whole: Figures) -> None:
    pair = "pair.concurrency.vllm-bf16.llamacpp-q4"
    assert 2 < value(whole, f"{pair}.cross1") < 4
    assert value(whole, f"{pair}.ratio_c1") > 1 > value(whole, f"{pair}.ratio_c16")
    assert value(whole, f"{pair}.predicted_step_ratio") == 4
    assert value(whole, f"{pair}.measured_step_ratio") == pytest.approx(2.5, rel=0.01)


def test_the_walls_of_a_growing_batch_cross(whole: Figures) -> None:
    assert 1 < value(whole, "concurrency.vllm-bf16.walls_cross") < 16


def test_bytes_of_the_groups_sum_to_the_weights(whole: Figures) -> None:
    groups = [q.value for q in whole.ledger if q.id.startswith("engine.vllm-bf16.bytes_")]
    assert sum(groups) == value(whole, "engine.vllm-bf16.weights_bytes")


def test_a_model_stands_in_for_a_missing_counter_and_says_so(whole: Figures) -> None:
    assert "by_model" in whole.ledger["concurrency.llamacpp-q4.c4.mbu"].notes
    assert "by_model" not in whole.ledger[f"{L}.mbu"].notes


def test_an_slo_that_is_missed_leaves_no_goodput(whole: Figures) -> None:
    fast, slow = (whole.ledger[f"concurrency.vllm-bf16.{c}.goodput"].value for c in ("c1", "c16"))
    assert fast == pytest.approx(value(whole, "concurrency.vllm-bf16.c1.request_throughput"))
    assert slow == 0


def assert_recomputed(figures: Figures) -> None:
    """Each value again from formula text and files, by the audit's evaluator."""
    manifest = figures.ledger.manifest("composed", {})
    evidence, known = Evidence(figures.round.bytes, manifest["columns"]), {f["id"]: f for f in manifest["figures"]}
    for figure in manifest["figures"]:
        if figure["value"] is not None:
            again = np.array(recompute(figure, evidence, known), dtype=float)
            assert again == pytest.approx(np.array(figure["value"]), rel=1e-6, abs=1e-9), figure["id"]


def test_every_figure_comes_out_of_its_formula_text_a_second_time(whole: Figures) -> None:
    assert_recomputed(whole)


def some_trouble(key: str, request: Request) -> Request:
    if not request.kinds:
        return request
    if request.index % 5 == 3:
        return jumped("r1", request.model_copy(update={"index": 5}))
    if request.index % 7 == 4:
        return request.model_copy(update={"usage": None, "tokens": [3, *request.tokens[1:]]})
    return request


def test_figures_of_troubled_records_come_out_a_second_time_too(tmp_path: Path) -> None:
    def some(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="connect") if index % 3 == 0 or (level, repeat) == ("c2", 1) else None

    round = compose_round(tmp_path / "r", tests=(sweep(1, 2, 4),), failures=some, alter=some_trouble)
    figures = compute(round)
    assert figures.findings
    assert_recomputed(figures)


def test_the_baseline_comes_first_whatever_the_order(tmp_path: Path) -> None:
    figures = compute(compose_round(tmp_path / "r", engines=(LLAMA, VLLM), tests=(sweep(1),), repeats=1))
    assert figures.engines == figures.tests[0].engines == ("vllm-bf16", "llamacpp-q4")


def test_the_same_round_gives_the_same_ledger(tmp_path: Path) -> None:
    one, two = (compute(compose_round(tmp_path / n, tests=(sweep(1, 2),))) for n in "ab")
    assert list(one.ledger) == list(two.ledger)


def test_a_round_of_one_level_lacks_what_needs_more(tmp_path: Path) -> None:
    figures = compute(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(2),), repeats=1))
    scope = "concurrency.vllm-bf16"
    for name in ("knee", "usl_lambda", "usl_peak", "usl_residual", "itl_growth", "marginal_cost_s", "walls_cross",
                 "c2.elasticity", "c2.scaling_efficiency"):  # fmt: skip
        assert figures.ledger[f"{scope}.{name}"].reason
    assert value(figures, f"{scope}.c2.output_throughput") > 0


def test_a_level_in_which_all_failed_is_counted_and_flagged(tmp_path: Path) -> None:
    dead = Failure(kind="http", status=500, message="<script>")
    figures = compute(compose_round(tmp_path / "r", tests=(sweep(1, 2),), failures=lambda *_: dead))
    assert value(figures, "concurrency.vllm-bf16.c1.failed") == 16
    assert value(figures, "concurrency.vllm-bf16.c1.completed") == 0
    throughput = figures.ledger["concurrency.vllm-bf16.c1.output_throughput"]
    assert throughput.missing
    assert figures.ledger["pair.concurrency.vllm-bf16.llamacpp-q4.cross1"].missing
    assert {flag.kind for flag in figures.flags} >= {"failed"}


def test_a_repeat_in_which_all_failed_does_not_take_the_level_with_it(tmp_path: Path) -> None:
    def second(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="stall") if repeat == 2 else None

    figures = compute(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), failures=second))
    assert value(figures, "concurrency.vllm-bf16.c1.output_throughput") > 0
    assert value(figures, "concurrency.vllm-bf16.c1.failed") == 8


def test_a_round_without_counters_logs_models_and_ceilings_has_reasons_instead(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", tests=(sweep(1, 2),), counters=False, samples=False, logs=False,
                          models=False, ceilings=False)  # fmt: skip
    ledger = compute(round).ledger
    for id in ("engine.vllm-bf16.pool_tokens", "engine.vllm-bf16.weights_bytes", "engine.vllm-bf16.bandwidth",
               "concurrency.vllm-bf16.c1.preemptions", "concurrency.vllm-bf16.c1.running.mean",
               "concurrency.vllm-bf16.c1.mbu", "concurrency.llamacpp-q4.c1.kv_use.max"):  # fmt: skip
        assert ledger[id].missing
        assert ledger[id].reason
    assert not ledger["concurrency.vllm-bf16.c1.ttft.p50"].missing


def test_a_plain_server_has_latency_but_no_counters(tmp_path: Path) -> None:
    plain = Engine("plain", "openai")
    round = compose_round(tmp_path / "r", engines=(plain,), tests=(sweep(1, 2),), counters=False, samples=False)
    ledger = compute(round).ledger
    assert ledger["concurrency.plain.c1.itl.p50"].value > 0
    assert ledger["concurrency.plain.c1.preemptions"].missing


def without_counts(_: str, request: Request) -> Request:
    return request.model_copy(update={"tokens": None, "usage": None})


def test_a_server_that_counts_nothing_gives_no_throughput(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), alter=without_counts)
    ledger = compute(round).ledger
    assert ledger["concurrency.vllm-bf16.c1.output_throughput"].missing
    assert ledger["concurrency.vllm-bf16.c1.tpot.p50"].missing
    assert ledger["concurrency.vllm-bf16.c1.itl.p50"].notes == ("tokens_per_event_unknown",)
    assert ledger["concurrency.vllm-bf16.c1.ttft.p50"].value > 0


def jumped(key: str, request: Request) -> Request:
    if key.endswith("r1") and request.index == 5:
        return request.model_copy(update={"gaps_us": [-5, *request.gaps_us[1:]]})
    return request


def test_a_clock_that_jumps_is_a_finding_and_in_no_figure(tmp_path: Path) -> None:
    figures = compute(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), alter=jumped))
    (finding,) = figures.findings
    assert (finding.file, finding.line) == ("levels/concurrency/vllm-bf16/c1/r1/requests.jsonl", 6)
    assert value(figures, "concurrency.vllm-bf16.c1.completed") == 15
    assert value(figures, "concurrency.vllm-bf16.c1.check.stamps") == 1
    assert "check" in {flag.kind for flag in figures.flags}


def test_a_record_that_is_no_number_is_named_and_its_repeat_left_out(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),))
    file = tmp_path / "r" / "levels/concurrency/vllm-bf16/c1/r2/requests.jsonl"
    file.write_text(file.read_text("utf-8").replace('"due_us":', '"due_us":NaN,"x":', 1), "utf-8")
    figures = compute(Round(round.path))
    assert [finding.file for finding in figures.findings] == ["levels/concurrency/vllm-bf16/c1/r2/requests.jsonl"]
    assert value(figures, "concurrency.vllm-bf16.c1.repeats") == 1


def test_samples_that_are_not_finite_are_findings(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), repeats=1)
    file = tmp_path / "r" / "levels/concurrency/vllm-bf16/c1/r1/samples.jsonl"
    lines = file.read_text("utf-8").split("\n")
    lines[5] = "[" + lines[5].split(",")[0].strip("[") + ", NaN, 0, Infinity]"
    file.write_text("\n".join(lines), "utf-8")
    figures = compute(round)
    assert [(finding.file.rpartition("/")[2], finding.line) for finding in figures.findings] == [("samples.jsonl", 6)]


def test_a_counter_that_fell_gives_no_delta(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), repeats=1)
    file = tmp_path / "r" / "levels/concurrency/vllm-bf16/c1/r1/after.prom.gz"
    text = gzip.decompress(file.read_bytes()).decode()
    file.write_bytes(gzip.compress(re.sub(r"(generation_tokens_total\S+) \S+", r"\1 1.0", text).encode()))
    q = compute(round).ledger["concurrency.vllm-bf16.c1.r1.engine_generation_tokens"]
    assert "fell" in q.reason


def test_a_scrape_is_unpacked_once_however_many_figures_stand_on_it(tmp_path: Path, monkeypatch) -> None:
    asked = []
    text = Round.text
    monkeypatch.setattr(Round, "text", lambda self, file: asked.append(file) or text(self, file))
    compute(compose_round(tmp_path / "round", tests=[sweep(1)], repeats=2))
    scrapes = [file for file in asked if file.endswith("before.prom.gz")]
    assert len(scrapes) == len(set(scrapes)) == len(ENGINES) * 2


def test_a_damaged_log_leaves_its_figures_without_a_value(tmp_path: Path) -> None:
    found = compose_round(tmp_path / "round", tests=[sweep(1)], repeats=1)
    for name in ("engine.log.gz", "before.prom.gz"):
        next(found.path.glob(f"levels/*/{VLLM.id}/c1/r1/{name}")).write_bytes(b"no gzip")
    figures = compute(Round(found.path))
    for figure in ("logged_iterations", "queue.buckets", "prefix_hits"):
        assert figures.ledger[f"concurrency.{VLLM.id}.c1.{figure}"].missing


def test_counters_of_several_label_sets_are_summed_over_their_lines(whole: Figures) -> None:
    (source,) = whole.ledger[f"{L}.r1.engine_requests.after"].sources
    assert isinstance(source, Lines)
    assert source.count == 2


def test_levels_that_deserve_a_warning_are_flagged(tmp_path: Path) -> None:
    def falling(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.05, 0.01 * c * c

    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1, 4, 8, requests=8),), latency=falling,
                          prefix_hits=0.1)  # fmt: skip
    found = {(flag.scope.rpartition(".")[2], flag.kind) for flag in compute(round).flags}
    assert {("c4", "drop"), ("c8", "drop"), ("c8", "few_requests"), ("c1", "prefix_cache")} <= found


def test_a_warning_of_an_input_travels_to_what_is_derived(whole: Figures) -> None:
    assert "lower_bound" in whole.ledger["engine.vllm-bf16.flops_ceiling"].notes
    assert "lower_bound" in whole.ledger[f"{L}.mfu"].notes


def test_a_level_that_broke_off_is_left_out(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=ENGINES, tests=(sweep(1, 2),), repeats=1, seal=False,
                          unfinished=("concurrency/llamacpp-q4/c2/r1",))  # fmt: skip
    figures = compute(round)
    assert [level.name for level in figures.tests[0].levels_of("llamacpp-q4")] == ["c1"]
    assert figures.ledger["pair.concurrency.vllm-bf16.llamacpp-q4.cross1"].missing


def test_an_empty_round_has_engines_and_no_tests(tmp_path: Path) -> None:
    figures = compute(compose_round(tmp_path / "r", tests=()))
    assert figures.tests == ()
    assert not figures.ledger["engine.vllm-bf16.weights_bytes"].missing


def test_the_manifest_of_a_ledger_is_plain_json(whole: Figures) -> None:
    manifest = whole.ledger.manifest("composed", {})
    assert len(json.loads(json.dumps(manifest, allow_nan=False))["figures"]) == len(whole.ledger)
