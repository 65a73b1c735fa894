"""GPUs while a level ran, from composed lines: several of them, their memory, and why they slowed down."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import audited
from compose import Engine, compose_round, sweep
from genreport.figures import Figures, compute
from genreport.figures.power import REASONS, THROTTLED
from genreport.pages import Printer, _environment, shared_context
from genreport.rounds import Round
from test_report_ttft import put

VLLM = Engine("vllm-bf16", "vllm", "bf16", baseline=True)
LEVEL = "concurrency.vllm-bf16.c4"
HEAD = "t_us, index, power.draw [W]\n"


@pytest.fixture
def figures_of(tmp_path: Path) -> Callable[..., Figures]:
    """A round with a line of each GPU every 100 ms, what follows its index; a callable gives it by its number."""

    def make(*gpus: str | Callable[[int], str]) -> Figures:
        compose_round(tmp_path / "composed", engines=(VLLM,), tests=(sweep(1, 4),), repeats=2)
        for folder in (tmp_path / "composed").glob("levels/*/*/*/r*"):
            facts = json.loads((folder / "facts.json").read_text("utf-8"))
            times = range(facts["before_us"], facts["after_us"], 100_000)
            rows = [
                f"{t}, {k}, {gpu if isinstance(gpu, str) else gpu(n)}\n" for n, t in enumerate(times)
                for k, gpu in enumerate(gpus)
            ]  # fmt: skip
            put(folder, "gpu.csv", HEAD + "".join(rows))
        figures = compute(Round(tmp_path / "composed"))
        audited.recomputed(figures)
        return figures

    return make


def gpu(watts: object = 300, memory: object = 1000, reasons: str = "0x0000000000000000", heat: int = 60) -> str:
    return f"{watts}, 1500, 9501, {heat}, 90, 50, {memory}, {reasons}"


def value(figures: Figures, name: str) -> float:
    return figures.ledger[f"{LEVEL}.{name}"].value


def test_power_and_memory_of_several_gpus_add_up_and_the_hottest_counts(figures_of) -> None:
    figures = figures_of(gpu(300, 10_000, heat=60), gpu(200.5, 20_000, heat=71))
    assert value(figures, "power") == pytest.approx(500.5)
    assert value(figures, "gpu_memory.max") == 30_000 * 2**20
    assert value(figures, "temperature.max") == 71
    energy = sum(value(figures, f"r{r}.gpu{k}.energy") for r in (1, 2) for k in (0, 1))
    windows = sum(value(figures, f"r{r}.window_s") for r in (1, 2))
    assert energy == pytest.approx(500.5 * windows)
    assert value(figures, "sm_clock.mean") == 1500


def test_the_largest_memory_of_each_gpu_counts_whenever_it_was(figures_of) -> None:
    grows, falls = (lambda n: gpu(memory=min(n, 9) * 100)), (lambda n: gpu(memory=max(0, 9 - n) * 100 + 50))
    assert value(figures_of(grows), "gpu_memory.max") == 900 * 2**20
    assert value(figures_of(grows, falls), "gpu_memory.max") >= 900 * 2**20


def test_a_gpu_without_a_memory_of_its_own_says_nothing(figures_of) -> None:
    figures = figures_of(gpu(memory="[N/A]"))
    assert figures.ledger[f"{LEVEL}.gpu_memory.max"].reason == "the GPU does not say"
    assert value(figures, "power") == 300


def test_each_reason_to_slow_down_has_its_share_of_the_samples(figures_of) -> None:
    hot = gpu(reasons="0x0000000000000060")  # software and hardware thermal slowdown
    figures = figures_of(gpu(reasons="0x0000000000000004"), hot, gpu(reasons="0x0000000000000001"), gpu())
    shares = {reason: value(figures, f"throttle.{reason}") for reason in ("sw_power_cap", "sw_thermal", "hw_thermal")}
    assert shares == {"sw_power_cap": 0.25, "sw_thermal": 0.25, "hw_thermal": 0.25}
    assert value(figures, "throttled_share") == 0.5
    assert f"{LEVEL}.throttle.hw_slowdown" not in figures.ledger


def test_the_words_of_an_amd_card_are_reasons_too(figures_of) -> None:
    figures = figures_of(
        gpu(reasons="ppt+socket_thermal"), gpu(reasons="none"), gpu(reasons="[N/A]"), gpu(reasons="throttled")
    )
    assert value(figures, "throttled_share") == 0.5
    assert value(figures, "throttle.ppt") == value(figures, "throttle.socket_thermal") == 0.25
    assert value(figures, "throttle.throttled") == 0.25


def test_the_page_names_the_reasons_in_words(figures_of) -> None:
    figures = figures_of(gpu(reasons="0x0000000000000084"))
    waits = [{"engine": "vllm-bf16", "levels": [LEVEL]}]
    context = shared_context(figures) | {"up": "../", "waits": waits}
    found = _environment(Printer(figures.ledger, "../")).get_template("_throttling.html").render(context)
    words = " ".join(re.sub(r"<[^>]+>", " ", found).split())
    assert "its power limit 100 % , a brake from the power supply 100 %" in words


def test_gpus_that_never_slowed_down_need_no_words(figures_of) -> None:
    figures = figures_of(gpu())
    context = shared_context(figures) | {"up": "../", "waits": [{"engine": "vllm-bf16", "levels": [LEVEL]}]}
    assert not _environment(Printer(figures.ledger, "../")).get_template("_throttling.html").render(context).strip()


@given(st.integers(0, 2**64 - 1))
def test_bits_are_read_as_the_driver_means_them(mask: int) -> None:
    line = f"7, 0, 300.00, 0x{mask:016X}"
    bits = {"sw_power_cap": 4, "hw_slowdown": 8, "sw_thermal": 0x20, "hw_thermal": 0x40, "power_brake": 0x80}
    for reason, bit in bits.items():
        assert bool(re.search(REASONS[reason], line)) is bool(mask & bit)
    assert bool(re.search(THROTTLED, line)) is bool(mask & sum(bits.values()))


@given(
    st.lists(
        st.sampled_from(["prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal"]), min_size=1, unique=True
    )
)
def test_words_are_read_one_by_one(reasons: list[str]) -> None:
    line = f"7, 0, 300, {'+'.join(reasons)}"
    assert {reason for reason, end in REASONS.items() if re.search(end, line)} == set(reasons)
    assert re.search(THROTTLED, line)
