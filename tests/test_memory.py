"""The memory of an engine: what its start-up log states, held against what was sampled while it served."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import audited
import compose
from compose import Engine, compose_round, sweep
from genreport.charts.memory import memory as drawn
from genreport.figures import Figures, compute
from genreport.figures.memory import unexplained, unexplained_share
from genreport.pages import Printer, _environment, shared_context
from genreport.reports.memory import account
from genreport.rounds import Round
from test_report_ttft import put
from test_startlog import composed as log_of

GIB, MIB = 2**30, 2**20
VLLM = Engine("vllm-bf16", "vllm", "bf16", baseline=True)
LLAMA = Engine("llamacpp-q4", "llamacpp", "q4_1")
HOST_LOG = (
    "INFO config: model='m', tensor_parallel_size=1, device_config=cpu\n"
    "INFO Checkpoint size: 0.25 GiB.\nINFO Explicitly set (1.0/14.96) GiB for KV cache on node 0.\n"
)
GPU = "300.00, 1500, 9501, 60, 90, 50, {}, 0x0000000000000000"


def resident(path: Path, bytes: float) -> None:
    """Adds the engines' resident memory to every sample: half of it at first, all of it at the last."""
    for folder in path.glob("levels/*/*/*/r*"):
        head, *rows = map(json.loads, (folder / "samples.jsonl").read_text("utf-8").splitlines())
        head["series"].append("process:resident_bytes")
        grown = [[*row, bytes if k > len(rows) // 2 else bytes / 2] for k, row in enumerate(rows)]
        (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (head, *grown)), "utf-8")


def on_cards(path: Path, *used_mib: float) -> None:
    """A line each 100 ms of every GPU with this memory in use."""
    for folder in path.glob("levels/*/*/*/r*"):
        facts = json.loads((folder / "facts.json").read_text("utf-8"))
        times = range(facts["before_us"], facts["after_us"], 100_000)
        rows = [f"{t}, {k}, {GPU.format(mib)}\n" for t in times for k, mib in enumerate(used_mib)]
        put(folder, "gpu.csv", "t_us, index, power.draw [W]\n" + "".join(rows))


@pytest.fixture
def figures_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Figures]:
    """Composes a round with these start-up logs and samples, computes it, and recomputes it by the second path."""

    def make(
        log: str = "", llama: str = "", *, rss: float | None = None, cards: tuple[float, ...] = (), **what: object
    ) -> Figures:
        monkeypatch.setattr(compose, "VLLM_LOG", compose.VLLM_LOG + log)
        monkeypatch.setattr(compose, "LLAMA_LOG", compose.LLAMA_LOG + llama)
        compose_round(tmp_path / "composed", **{"engines": (VLLM, LLAMA), "tests": (sweep(1, 4),)} | what)
        if rss is not None:
            resident(tmp_path / "composed", rss)
        if cards:
            on_cards(tmp_path / "composed", *cards)
        figures = compute(Round(tmp_path / "composed"))
        audited.recomputed(figures)
        return figures

    return make


def plain(words: str) -> str:
    return " ".join(words.split())


def value(figures: Figures, id: str) -> float:
    return figures.ledger[id].value


def of(figures: Figures, scope: str) -> dict[str, float | str]:
    """Every direct figure of a place: its value, or why it has none."""
    start = f"engine.{scope}."
    return {
        q.id.removeprefix(start): q.reason if q.missing else q.value
        for q in figures.ledger
        if q.id.startswith(start) and "." not in q.id.removeprefix(start)
    }


def markup(figures: Figures, *engines: str) -> str:
    environment = _environment(Printer(figures.ledger, "../"))
    context = shared_context(figures) | {"up": "../", "memory": account(figures, *engines)}
    return environment.get_template("_h2h-memory.html").render(context)


def text(figures: Figures, *engines: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup(figures, *(engines or figures.engines))).split())


# ------------------------------------------------------------------------------------- the figures


def test_what_the_log_states_is_held_against_resident_memory(figures_of) -> None:
    figures = figures_of(HOST_LOG, rss=4 * GIB)
    assert of(figures, "vllm-bf16.memory.host") == {
        "weights": 0.25 * GIB, "kv": GIB, "compute": "the start-up log does not say",
        "graphs": "the start-up log does not say", "other": "the start-up log does not say", "stated": 1.25 * GIB,
        "measured": 4 * GIB, "unexplained": 2.75 * GIB, "unexplained_share": pytest.approx(2.75 / 4),
    }  # fmt: skip
    assert value(figures, "engine.vllm-bf16.kv_bytes") == GIB
    assert "engine.vllm-bf16.memory.card.stated" not in figures.ledger


def test_more_stated_than_resident_is_shown_and_not_clipped(figures_of) -> None:
    figures = figures_of(HOST_LOG, rss=GIB)
    assert value(figures, "engine.vllm-bf16.memory.host.unexplained") == -0.25 * GIB
    assert "more than the 1 GiB that were ever used by its processes" in text(figures)
    assert "−256 MiB" in text(figures)


def test_the_parts_of_several_ranks_are_summed_and_each_is_a_figure(figures_of) -> None:
    figures = figures_of(log_of("vllm-0.12-two-ranks"), cards=(22_000, 21_000))
    card = of(figures, "vllm-bf16.memory.card")
    assert card["weights"] == pytest.approx((7.63 + 7.65) * GIB)
    assert card["kv"] == pytest.approx(23 * GIB)
    assert card["stated"] == pytest.approx((7.63 + 7.65 + 23 + 3 + 1.1 + 0.08) * GIB)
    assert card["measured"] == 43_000 * MIB
    assert value(figures, "engine.vllm-bf16.memory.card.kv.Worker_TP1") == 11 * GIB
    assert value(figures, "engine.vllm-bf16.ranks") == 2
    assert value(figures, "engine.vllm-bf16.pool_tokens") == 395008
    assert "each statement of its log" in text(figures)
    assert "Worker_TP1" in text(figures)


def test_one_rank_that_speaks_for_all_is_taken_times_their_number(figures_of) -> None:
    figures = figures_of(log_of("vllm-0.22-one-of-four-ranks"))
    card = of(figures, "vllm-bf16.memory.card")
    assert (card["weights"], card["kv"], card["other"]) == (41 * GIB, 34 * GIB, 6 * GIB)
    assert card["measured"] == "no memory of a GPU was sampled"
    assert card["unexplained"] == card["measured"]
    assert "one_rank_stated" in figures.ledger["engine.vllm-bf16.memory.card.stated"].notes
    assert "was not sampled, so nothing holds against it" in text(figures)


def test_ranks_that_are_silent_leave_their_part_unknown(figures_of) -> None:
    log = log_of("vllm-0.12-two-ranks").replace("tensor_parallel_size=2", "tensor_parallel_size=4")
    figures = figures_of(log)
    assert of(figures, "vllm-bf16.memory.card")["weights"] == "only 2 of 4 ranks state it"
    assert figures.ledger["engine.vllm-bf16.kv_bytes"].reason == "only 2 of 4 ranks state it"


def test_a_pool_of_blocks_is_theirs_times_their_size(figures_of, monkeypatch) -> None:
    monkeypatch.setattr(compose, "VLLM_LOG", "")
    figures = figures_of(log_of("vllm-0.6-v0"))
    assert value(figures, "engine.vllm-bf16.pool_tokens") == 7504 * 16
    assert value(figures, "engine.vllm-bf16.announced_concurrency") == 14.66


def test_blocks_of_an_unknown_size_are_no_pool(figures_of, monkeypatch) -> None:
    monkeypatch.setattr(compose, "VLLM_LOG", "")
    figures = figures_of(log_of("vllm-0.7-blocks"))
    assert figures.ledger["engine.vllm-bf16.pool_tokens"].reason == "the engine states no block size"
    assert value(figures, "engine.vllm-bf16.announced_concurrency") == 10.79


def test_the_pools_of_a_data_parallel_server_are_summed(figures_of, monkeypatch) -> None:
    monkeypatch.setattr(compose, "VLLM_LOG", "")
    figures = figures_of(log_of("vllm-two-engines"))
    assert value(figures, "engine.vllm-bf16.pool_tokens") == 120064 + 112352
    assert value(figures, "engine.vllm-bf16.announced_concurrency") == pytest.approx(28.37)
    assert value(figures, "engine.vllm-bf16.pool_tokens.EngineCore_DP1") == 112352


def test_an_override_of_blocks_makes_the_stated_kv_untrue(figures_of) -> None:
    figures = figures_of(HOST_LOG + "INFO non-default args: {'num_gpu_blocks_override': 24}\n", rss=4 * GIB)
    assert of(figures, "vllm-bf16.memory.host")["kv"] == "a block override makes the reported pool untrue"
    assert of(figures, "vllm-bf16.memory.host")["stated"] == 0.25 * GIB


def test_llama_cpp_with_cards_has_an_account_of_each_place(figures_of) -> None:
    figures = figures_of("", log_of("llamacpp-2024-two-cards"), rss=2000 * MIB, cards=(9000, 19_000))
    card, host = (of(figures, f"llamacpp-q4.memory.{place}") for place in ("card", "host"))
    assert card["stated"] == (5434.5 + 13989.5 + 1536 + 3584 + 672 + 672.5) * MIB
    assert card["graphs"] == host["graphs"] == "llama.cpp states no memory of graphs"
    assert card["other"] == "the start-up log does not say"
    assert (host["stated"], host["measured"]) == ((1640.5 + 48 + 1.5) * MIB, 2000 * MIB)
    assert value(figures, "engine.llamacpp-q4.model_bytes") == (1640.5 + 5434.5 + 13989.5) * MIB
    assert value(figures, "engine.llamacpp-q4.memory.card.weights.CUDA1") == 13989.5 * MIB


def test_a_log_with_more_devices_than_any_machine_has_is_not_summed(figures_of) -> None:
    llama = "".join(f"load_tensors: CUDA{k} model buffer size = 1.00 MiB\n" for k in range(300))
    assert "more devices" in of(figures_of("", llama), "llamacpp-q4.memory.card")["weights"]


def test_without_logs_and_samples_there_is_no_account(figures_of) -> None:
    figures = figures_of(logs=False)
    assert figures.ledger["engine.vllm-bf16.model_bytes"].reason == "no start-up log"
    assert account(figures, "vllm-bf16")["silent"] == ["vllm-bf16"]
    assert "no memory was sampled, and no start-up log states any" in text(figures)


def test_memory_that_no_log_speaks_of_is_measured_all_the_same(figures_of) -> None:
    figures = figures_of(rss=GIB)
    assert of(figures, "vllm-bf16.memory.host")["stated"] == "the start-up log states no memory here"
    assert "1 GiB were used by its processes at most; the start-up log states nothing of it" in text(figures)


def test_the_published_account_of_one_card_leaves_as_much_unexplained_as_was_published() -> None:
    golden = json.loads((Path(__file__).parent / "golden" / "published-4090.json").read_text("utf-8"))["pairs"]
    pair = next(pair for pair in golden if pair["id"] == "llamacpp_memory")
    stated = 4.68e9 + 262144 * 57344
    assert f"{stated / GIB:.2f} GiB" == pair["display"]
    assert f"{unexplained_share(pair['measured_gib'] * GIB, stated):.1%}" == pair["difference"].replace(" ", "")


@given(st.floats(1, 1e13), st.floats(0, 1e13))
def test_stated_and_unexplained_make_what_was_measured(measured: float, stated: float) -> None:
    assert stated + unexplained(measured, stated) == pytest.approx(measured, abs=1e-2)
    assert unexplained_share(measured, stated) <= 1


# ------------------------------------------------------------------------------------- page and chart


@pytest.mark.parametrize(
    ("rss", "words"),
    [
        (1.27 * GIB, "accounts for nearly all of the 1.27 GiB that were used by its processes at most"),
        (4 * GIB, "the program itself, its libraries, and what the log does not name"),
        (1.1 * GIB, "memory that nothing has touched yet is not resident"),
    ],
    ids=["explained", "less", "more"],
)
def test_the_page_says_what_the_difference_may_be(figures_of, rss: float, words: str) -> None:
    assert words in text(figures_of(HOST_LOG, rss=rss))


def test_the_page_says_how_each_pool_is_handed_out(figures_of) -> None:
    found = text(figures_of(HOST_LOG, rss=GIB))
    assert "blocks of one pool that all requests share" in found
    assert "a fixed part for each slot, used or not" in found


def test_the_chart_ends_where_memory_was_measured_and_says_its_numbers(figures_of) -> None:
    figures = figures_of(HOST_LOG, rss=4 * GIB)
    chart = account(figures, "vllm-bf16")["charts"]["memory"]
    assert "vllm-bf16: weights 256 MiB, KV 1 GiB, not in log 2.75 GiB, measured 4 GiB." in plain(chart.alt)
    rows = [row for data in chart.spec["datasets"].values() for row in data]
    measured = [row["value"] for row in rows if row["part"] == "measured"]
    assert measured == [4 * GIB]
    assert sum(row["value"] for row in rows if row["part"] != "measured") == 4 * GIB
    report = audited.charts(figures, [chart])
    assert not report.failures


def test_the_chart_of_two_places_names_both(figures_of) -> None:
    figures = figures_of("", log_of("llamacpp-2024-two-cards"), rss=2000 * MIB, cards=(9000, 19_000))
    chart = account(figures, "vllm-bf16", "llamacpp-q4")["charts"]["memory"]
    assert "llamacpp-q4, GPU: weights 19.0 GiB" in plain(chart.alt)
    assert "llamacpp-q4, processes: weights 1.60 GiB" in plain(chart.alt)
    assert not audited.charts(figures, [chart]).failures


def test_nothing_to_draw_is_no_chart() -> None:
    assert drawn([]) is None


def test_a_hostile_device_name_reaches_no_page(figures_of) -> None:
    llama = "load_tensors: <script>alert(1)</script> model buffer size = 9.00 MiB\n" * 2
    found = markup(figures_of("", llama), "llamacpp-q4")
    assert "<script>" not in found
    assert "script-alert-1-script" in found
