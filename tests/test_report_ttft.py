"""02 TTFT anatomy: the parts of the wait are the engine's own, they add up or are said not to, each sentence is earned."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import audited
from compose import LLAMA, VLLM, Engine, compose_round, lengths, sweep
from genreport import evaluate
from genreport.charts import ttft as charts
from genreport.figures import Figures, compute, histograms
from genreport.figures.anatomy import PARTS
from genreport.figures.book import Absent
from genreport.provenance import Lines
from genreport.records import Failure, Request
from genreport.rounds import Round, packed

BOUNDS = (0.1, 0.3, 0.5, 1.0)
L1, L4 = "concurrency.vllm-bf16.c1", "concurrency.vllm-bf16.c4"
Enrich = Callable[[Path], None]


# ------------------------------------------------------------------------------------- what composed rounds lack


def repeats(path: Path, engine: str = "vllm-bf16") -> list[Path]:
    return sorted(path.glob(f"levels/*/{engine}/*/r*"))


def text_of(folder: Path, name: str) -> str:
    return gzip.decompress((folder / name).read_bytes()).decode()


def put(folder: Path, name: str, text: str) -> None:
    """A file of a repeat, entered into its facts where it is new."""
    (folder / name).write_bytes(packed(text) if name.endswith(".gz") else text.encode())
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    facts["files"].setdefault(name, {"sha256": "0" * 64, "bytes": len(text)})
    (folder / "facts.json").write_text(json.dumps(facts, indent=1), "utf-8")


def buckets(name: str, values: list[float], bounds: tuple[float, ...], labels: str = 'engine="0"') -> str:
    counts = [*(sum(v <= bound for v in values) for bound in bounds), len(values)]
    return "".join(
        f'{name}_bucket{{{labels},le="{bound}"}} {count}.0\n'
        for bound, count in zip([*bounds, "+Inf"], counts, strict=True)
    )


def histogram(name: str, values: list[float], **more: str) -> str:
    facts = f"{name}_count {len(values)}.0\n{name}_sum {sum(values)!r}\n"
    return buckets(name, values, BOUNDS, **more) + facts


def phases(queue: Callable[[int], float], prefill: Callable[[int], float], engine: str = "vllm-bf16") -> Enrich:
    """Histograms in which every request of a level waited and was prefilled for as long, after seven of 50 ms."""

    def enrich(path: Path) -> None:
        for folder in repeats(path, engine):
            c = int(folder.parent.name[1:])
            lines = (folder / "requests.jsonl").read_text("utf-8").split("\n")
            n = sum('"warmup":false' in line and '"failure":null' in line for line in lines)
            for name, served in (("before.prom.gz", 0), ("after.prom.gz", n)):
                times = {"queue": queue(c), "prefill": prefill(c), "decode": 0.2}
                added = "".join(
                    histogram(f"vllm:request_{phase}_time_seconds", [0.05] * 7 + [time] * served)
                    for phase, time in times.items()
                )
                put(folder, name, text_of(folder, name) + added)

    return enrich


def at(one: float, four: float) -> Callable[[int], float]:
    """A time at C = 1 and at C = 4."""
    return lambda c: one if c == 1 else four


def ttft(one: float, four: float) -> Callable[[str, int, int], tuple[float, float]]:
    return lambda engine, c, repeat: (at(one, four)(c), 0.02)


def logged(*iterations: tuple[int, int]) -> Enrich:
    """An iteration line for each pair of context and generation requests."""
    lines = "".join(
        f"INFO Iteration({k}): {context} context requests, {context * 32} context tokens, {decoding} generation "
        f"requests, {decoding} generation tokens, iteration elapsed time: 9.00 ms\n"
        for k, (context, decoding) in enumerate(iterations, 40)
    )

    def enrich(path: Path) -> None:
        for folder in repeats(path):
            put(folder, "engine.log.gz", "INFO started\n" + lines + "INFO done\n")

    return enrich


def sampled(*gpus: str) -> Enrich:
    """A line each 100 ms of every GPU, from before the first request to after the last."""

    def enrich(path: Path) -> None:
        for folder in repeats(path):
            facts = json.loads((folder / "facts.json").read_text("utf-8"))
            times = range(facts["before_us"], facts["after_us"], 100_000)
            rows = [f"{t}, {k}, {gpu}\n" for t in times for k, gpu in enumerate(gpus)]
            put(folder, "gpu.csv", "t_us, index, power.draw [W], clocks.current.sm [MHz]\n" + "".join(rows))

    return enrich


def composed(tmp_path: Path, *enrich: Enrich, **what: object) -> Round:
    compose_round(tmp_path / "case", **{"engines": (VLLM,), "tests": (sweep(1, 4),)} | what)
    for each in enrich:
        each(tmp_path / "case")
    return Round(tmp_path / "case")


def read(round: Round) -> str:
    """The page as a reader sees it; that it is written means that every figure came out a second time."""
    markup = audited.page(round, "ttft/index.md")
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())


def page(tmp_path: Path, *enrich: Enrich, **what: object) -> str:
    return read(composed(tmp_path, *enrich, **what))


def value(figures: Figures, id: str) -> float:
    return figures.ledger[id].value


# ------------------------------------------------------------------------------------- the parts of the wait


def test_the_parts_of_the_wait_are_the_engines_own_and_add_up(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, phases(at(0.01, 0.6), at(0.04, 0.04)), latency=ttft(0.06, 0.66)))
    assert value(figures, f"{L4}.queue.mean") == pytest.approx(0.6)
    assert value(figures, f"{L4}.prefill.mean") == pytest.approx(0.04)
    assert value(figures, f"{L4}.decode.mean") == pytest.approx(0.2)
    parts = [value(figures, f"{L4}.{figure}") for figure in PARTS.values()]
    assert sum(parts) == pytest.approx(value(figures, f"{L4}.wait"))
    assert value(figures, f"{L4}.queued_share") == pytest.approx(0.6 / 0.66, rel=0.02)


def test_a_percentile_of_a_histogram_has_the_width_of_its_bucket_as_error(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, phases(at(0.2, 0.2), at(0.04, 0.4)), latency=ttft(0.3, 0.7)))
    q = figures.ledger[f"{L4}.queue.p50"]
    assert q.value == pytest.approx(0.2)  # half way through the bucket from 0.1 to 0.3
    assert value(figures, f"{L4}.queue.p50.width") == pytest.approx(0.2)
    assert value(figures, f"{L1}.prefill.p50.width") == pytest.approx(0.1)
    assert q.n == 32
    assert "n_too_small" in figures.ledger[f"{L4}.queue.p99"].notes


def test_a_percentile_in_the_first_bucket_is_said_to_lie_below_its_bound(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.01, 0.01), at(0.04, 0.4)), latency=ttft(0.06, 0.5))
    assert "below 100 ms" in text
    assert "400 ms ± 200 ms" in text


def test_every_source_of_the_anatomy_matches_as_many_lines_as_it_says(tmp_path: Path) -> None:
    round = composed(tmp_path, phases(at(0.2, 0.2), at(0.04, 0.4)), logged((1, 0), (0, 1), (1, 3)))
    found = [(q.id, s) for q in compute(round).ledger for s in q.sources if isinstance(s, Lines)]
    assert {"queue.bounds", "mixed_iterations"} <= {id.split(".r1.")[-1] for id, _ in found}
    for id, source in found:
        lines = round.text(source.file).split("\n")[source.first - 1 : source.last]
        assert sum(bool(re.search(source.pattern, line)) for line in lines) == source.count, id


def test_a_percentile_beyond_the_last_bound_is_not_invented(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, phases(at(0.01, 30.0), at(0.04, 0.04)), latency=ttft(0.06, 31)))
    assert "last bound" in figures.ledger[f"{L4}.queue.p50"].reason
    assert value(figures, f"{L4}.queue.mean") == pytest.approx(30)


def test_several_engines_behind_one_address_have_means_but_no_percentiles(tmp_path: Path) -> None:
    def second(path: Path) -> None:
        for folder in repeats(path):
            more = histogram("vllm:request_queue_time_seconds", [0.05] * 7, labels='engine="1"')
            for name in ("before.prom.gz", "after.prom.gz"):
                put(folder, name, text_of(folder, name) + more)

    figures = compute(composed(tmp_path, phases(at(0.2, 0.2), at(0.1, 0.1)), second, latency=ttft(0.4, 0.4)))
    assert value(figures, f"{L4}.queue.mean") == pytest.approx(0.2)
    assert "label sets" in figures.ledger[f"{L4}.queue.p50"].reason


def test_llamacpp_states_its_prefill_and_its_queue_follows_from_the_deferred_requests(tmp_path: Path) -> None:
    def deferred(path: Path) -> None:
        for folder in repeats(path, "llamacpp-q4"):
            head, *rows = (folder / "samples.jsonl").read_text("utf-8").strip().split("\n")
            rows = [json.dumps([t, running, 2]) for t, running, _ in map(json.loads, rows)]
            (folder / "samples.jsonl").write_text("\n".join([head, *rows]) + "\n", "utf-8")

    round = composed(tmp_path, deferred, engines=(LLAMA,), latency=ttft(0.5, 0.5))
    figures, level = compute(round), "concurrency.llamacpp-q4.c4"
    rate = value(figures, f"{level}.request_throughput")
    assert value(figures, f"{level}.queue.mean") == pytest.approx(2 / rate)
    assert "by_little" in figures.ledger[f"{level}.queue.mean"].notes
    assert value(figures, f"{level}.prefill.mean") == pytest.approx(0.499, rel=0.02)
    assert value(figures, f"{level}.prefill_stated.p90") >= value(figures, f"{level}.prefill_stated.p50")
    text = read(round)
    assert "engine queue (derived)" in text
    assert "defers a request only when no slot is free" in text
    assert "waits in the front end" in text


def test_vllm_without_scrapes_is_divided_by_what_its_answers_state(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, counters=False, latency=ttft(0.2, 0.4)))
    assert value(figures, f"{L4}.queue.mean") == pytest.approx(2e-5)
    assert value(figures, f"{L4}.front_end") == pytest.approx(0.001, abs=1e-4)


def odd(_: str, request: Request) -> Request:
    stated = {"queue_time_ms": "soon", "time_to_first_token_ms": 1e300, "generation_time_ms": True}
    return request.model_copy(update={"server": {"metrics": stated}}) if request.index % 2 else request


def test_times_that_are_no_times_are_left_out(tmp_path: Path) -> None:
    ledger = compute(composed(tmp_path, alter=odd)).ledger
    assert {ledger[f"{L4}.{phase}_stated.mean"].n for phase in ("queue", "prefill", "decode")} == {16}
    assert ledger[f"{L4}.queue_stated.mean"].value == pytest.approx(2e-5)


# ------------------------------------------------------------------------------------- the two paths


@given(st.lists(st.integers(0, 40), min_size=2, max_size=8), st.sampled_from((50, 90, 99)))
def test_both_paths_place_a_percentile_alike(parts: list[int], q: int) -> None:
    assume(sum(parts))
    counts, bounds = np.cumsum(parts).astype(float), np.arange(1.0, len(parts))
    try:
        first = histograms.percentile(bounds, counts, q), histograms.width(bounds, counts, q)
    except Absent:
        with pytest.raises(ValueError, match="last bound"):
            evaluate.histogram_percentile(bounds, counts, q)
        return
    second = evaluate.histogram_percentile(bounds, counts, q), evaluate.histogram_width(bounds, counts, q)
    assert first == pytest.approx(second)


@given(st.lists(st.floats(1e-6, 0.999), min_size=1, max_size=60), st.sampled_from((50, 90, 99)))
def test_the_true_percentile_is_never_further_off_than_the_width(values: list[float], q: int) -> None:
    counts = np.array([*(sum(v <= bound for v in values) for bound in BOUNDS), len(values)], dtype=float)
    true = np.percentile(values, q, method="inverted_cdf")
    found, width = (f(np.array(BOUNDS), counts, q) for f in (histograms.percentile, histograms.width))
    assert abs(found - true) <= width + 1e-9


# ------------------------------------------------------------------------------------- which sentence is earned


def test_the_queue_that_grows_is_named_with_its_numbers(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.0125, 0.6125), at(0.04, 0.04)), latency=ttft(0.06, 0.66))
    assert "the engine's queue grows most, from 12.5 ms at C = 1 to 61" in text
    assert "more places would shorten the wait" in text


def test_the_prefill_that_grows_is_named_with_its_numbers(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.01, 0.02), at(0.0415, 0.615)), latency=ttft(0.06, 0.66))
    assert "the prefill grows most, from 41.5 ms at C = 1 to 615 ms at C = 4" in text
    assert "most of the wait comes after the queue" in text


def test_a_wait_that_hardly_grows_is_said_to(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.01, 0.012), at(0.04, 0.04)), latency=ttft(0.06, 0.062))
    assert "the mean wait hardly grows" in text
    assert "grows most" not in text


def test_a_wait_that_falls_is_said_to_fall(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.4, 0.01), at(0.04, 0.04)), latency=ttft(0.5, 0.06))
    assert "the mean wait falls" in text


def test_one_level_has_a_largest_part_and_no_growth(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.01, 0.01), at(0.04, 0.04)), tests=(sweep(4),), latency=ttft(0.06, 0.06))
    assert "has results at one level only, so nothing can grow" in text
    assert "the largest part is the prefill with 40" in text


def silent(_: str, request: Request) -> Request:
    return request.model_copy(update={"server": {}})


def test_an_engine_that_states_no_times_leaves_its_wait_undivided(tmp_path: Path) -> None:
    text = page(tmp_path, engines=(Engine("plain", "openai"),), counters=False, samples=False, alter=silent)
    assert "which part of it grows cannot be told (n/a: the server states no queue time of its requests)" in text
    assert "the whole TTFT stands in one bar there" in text


def test_one_level_of_an_engine_that_states_no_times_has_a_wait(tmp_path: Path) -> None:
    text = page(tmp_path, tests=(sweep(4),), counters=False, alter=silent)
    assert "and its parts cannot be told (n/a: " in text


def test_where_all_failed_there_is_no_wait_to_take_apart(tmp_path: Path) -> None:
    text = page(tmp_path, failures=lambda *_: Failure(kind="connect"))
    assert "there is no wait to take apart" in text


def test_an_engine_that_failed_stands_beside_one_that_did_not(tmp_path: Path) -> None:
    def llama_fails(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="connect") if engine == "llamacpp-q4" else None

    text = page(tmp_path, phases(at(0.01, 0.6), at(0.04, 0.04)), engines=(VLLM, LLAMA), failures=llama_fails,
                latency=ttft(0.06, 0.66))  # fmt: skip
    assert "the engine's queue grows most" in text
    assert "No request succeeded on llamacpp-q4" in text


def test_a_negative_front_end_is_said_and_not_hidden(tmp_path: Path) -> None:
    round = composed(tmp_path, phases(at(0.01, 0.01), at(0.04, 0.7)), latency=ttft(0.06, 0.66))
    assert value(compute(round), f"{L4}.front_end") == pytest.approx(-0.05, abs=0.01)
    text = read(round)
    assert "the front end is negative, −" in text
    assert "the parts do not add up" in text
    assert "negative front end" in text


def test_a_front_end_that_is_positive_is_not_called_negative(tmp_path: Path) -> None:
    text = page(tmp_path, phases(at(0.01, 0.01), at(0.04, 0.6)), latency=ttft(0.06, 0.66))
    assert "the parts do not add up" not in text


# ------------------------------------------------------------------------------------- what shares a step


def test_mixed_iterations_are_counted_in_the_log(tmp_path: Path) -> None:
    round = composed(tmp_path, logged((2, 0), (0, 4), (1, 3), (0, 0)))
    figures = compute(round)
    assert value(figures, f"{L4}.mixed_share") == pytest.approx(1 / 3)  # one at rest is no iteration at work
    assert value(figures, f"{L4}.logged_iterations") == 6
    text = read(round)
    assert ", 33.3 % at C = 1 and 33.3 % at C = 4 hold both prefill and decoding" in text


def test_no_mixed_iteration_is_a_counted_zero(tmp_path: Path) -> None:
    assert value(compute(composed(tmp_path, logged((2, 0), (0, 4)))), f"{L4}.mixed_share") == 0


def test_without_iteration_lines_the_histogram_bounds_the_mixed_share_and_the_page_says_so(tmp_path: Path) -> None:
    def sizes(path: Path) -> None:
        for folder in repeats(path):
            for name, steps in (("before.prom.gz", []), ("after.prom.gz", [4.0] * 9 + [36.0])):
                text = buckets("vllm:iteration_tokens_total", steps, (1.0, 4.0, 64.0))
                put(folder, name, text_of(folder, name) + text)

    round = composed(tmp_path, sizes)
    figures = compute(round)
    assert figures.ledger[f"{L4}.mixed_share"].missing
    assert value(figures, f"{L4}.mixed_share_bound") == pytest.approx(0.1)
    text = read(round)
    assert "at most 10" in text
    assert "by the engine's histogram" in text


def test_what_llamacpp_does_not_say_of_its_steps_is_na(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, engines=(LLAMA,)))
    assert "does not say" in figures.ledger["concurrency.llamacpp-q4.c4.mixed_share"].reason
    assert value(figures, "concurrency.llamacpp-q4.c4.tokens_per_iteration") > 0


# ------------------------------------------------------------------------------------- power and caches


BUSY = "300.00, 1500, 9501, 60, 90, 50, 10000, 0x0000000000000004"
IDLE = "50.00, 210, 405, 35, 0, 0, 10, 0x0000000000000001"


def test_power_and_clocks_come_from_the_samples_of_all_gpus(tmp_path: Path) -> None:
    round = composed(tmp_path, sampled(BUSY, IDLE))
    figures = compute(round)
    assert value(figures, f"{L4}.power") == pytest.approx(350)
    tokens = value(figures, f"{L4}.output_throughput")
    assert value(figures, f"{L4}.energy_per_token") == pytest.approx(350 / tokens)
    assert value(figures, f"{L4}.sm_clock.min") == 210
    assert value(figures, f"{L4}.temperature.max") == 60
    assert value(figures, f"{L4}.throttled_share") == pytest.approx(0.5)
    assert "350" in read(round)


def test_a_gpu_without_a_power_sensor_has_clocks_only(tmp_path: Path) -> None:
    figures = compute(composed(tmp_path, sampled(BUSY.replace("300.00", "[N/A]"))))
    assert "does not say" in figures.ledger[f"{L4}.power"].reason
    assert value(figures, f"{L4}.sm_clock.mean") == 1500


def test_a_machine_without_a_sensor_says_not_measured(tmp_path: Path) -> None:
    assert "Not measured: no power sensor." in page(tmp_path)


def test_a_level_helped_by_a_prefix_cache_is_not_comparable(tmp_path: Path) -> None:
    text = page(tmp_path, prefix_hits=0.25)
    assert re.search(r"its cache helped at C = 1 \(\d\S* % of the prompt tokens\), C = 4", text)
    assert "not comparable" in text


def test_a_cache_that_did_not_help_is_said_not_to(tmp_path: Path) -> None:
    assert "vllm-bf16: no level was helped" in page(tmp_path)


def test_a_cache_that_is_off_is_said_to_be_off(tmp_path: Path) -> None:
    def off(path: Path) -> None:
        for folder in repeats(path):
            for name in ("before.prom.gz", "after.prom.gz"):
                put(folder, name, re.sub(r"(prefix_cache_queries_total\S+) \S+", r"\1 0.0", text_of(folder, name)))

    assert "its cache was off" in page(tmp_path, off)


def test_without_counters_it_cannot_be_told_whether_a_cache_helped(tmp_path: Path) -> None:
    assert "vllm-bf16: it cannot be told, for want of the engine's counters" in page(tmp_path, counters=False)


# ------------------------------------------------------------------------------------- poor rounds and charts


@pytest.mark.parametrize(
    "what",
    [
        {"counters": False, "samples": False, "logs": False, "models": False, "ceilings": False},
        {"engines": (LLAMA,), "samples": False},
        {"engines": (VLLM, LLAMA, Engine("plain", "openai")), "repeats": 1},
        {"failures": lambda engine, level, repeat, index: Failure(kind="stall") if repeat == 2 else None},
    ],
    ids=["no counters", "llama without samples", "three engines", "a repeat failed"],
)
def test_a_poor_round_still_reads(tmp_path: Path, what: dict) -> None:
    text = page(tmp_path, **what)
    assert "Between the first and the last level" in text
    assert "None" not in text


def test_a_round_without_a_sweep_says_how_to_measure_one(tmp_path: Path) -> None:
    text = page(tmp_path, tests=(lengths(64, 128),))
    assert "This round has no concurrency sweep" in text
    assert "kind: concurrency" in text


def rows(part: str, *values: float) -> list[dict]:
    return [
        {
            "engine": "vllm", "colour": "1", "level": f"c{c}", "flag": "", "concurrency": c,
            "concurrency_id": f"t.vllm.c{c}.concurrency", "value": value, "value_id": f"t.vllm.c{c}.{part}",
            "shown": f"{value:g} s", "href": "figures/x.html#y", "part": part,
        }
        for c, value in zip((1, 2), values, strict=True)
    ]  # fmt: skip


def test_the_stacked_bars_keep_the_order_of_the_wait_and_a_negative_part() -> None:
    drawn = charts.anatomy(rows("front_end", 0.1, -0.2) + rows("queue", 0.3, 0.4))
    assert drawn.alt.index("engine queue") < drawn.alt.index("front end")
    assert "-0.2 s at C = 2" in drawn.alt
    (bars,) = [layer for layer in drawn.spec["layer"] if layer["mark"]["type"] == "bar"]
    assert bars["encoding"]["color"]["scale"]["domain"] == ["engine queue", "front end"]
    assert '"transform"' not in json.dumps(drawn.spec)
    assert charts.anatomy([]) is None


def test_each_engine_has_its_bars_and_both_curves_are_drawn(tmp_path: Path) -> None:
    round = composed(tmp_path, phases(at(0.01, 0.6), at(0.04, 0.04)), logged((1, 0), (1, 3)), engines=(VLLM, LLAMA))
    markup = audited.page(round, "ttft/index.md")
    names = re.findall(r"gr_(\w+)", html.unescape(markup))
    assert names.count("anatomy") == 2
    assert {"mixed_share", "tokens_per_iteration"} <= set(names)
