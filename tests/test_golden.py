"""The formulas give the figures that were published for one real round, to the rounding they were shown with."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from genreport.figures import capacity, cliff, crossing, fitting, roofline, scaling

PAIRS = json.loads((Path(__file__).parent / "golden" / "published-4090.json").read_text("utf-8"))["pairs"]
B = 1008e9
VLLM, LLAMA = 14.14e9, 4.68e9
POOL = {"vllm": 120064, "llama": 262144}
K = capacity.kv_bytes_per_token(28, 4, 128, 2)
SCALES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "ms": 1e-3, "%": 1e-2, "x": 1, "": 1}


def floor(weights: float, c: float) -> float:
    return roofline.floor(weights, c, 1024, 256, K, B)


def cost(first_ms: float, last_ms: float) -> float:
    return roofline.marginal_cost(last_ms / 1e3, first_ms / 1e3, 64, 1)


COMPUTED: dict[str, Callable[[], float]] = {
    "kv_bytes_per_token": lambda: K,
    "kv_request_full_context": lambda: capacity.pool_bytes(8192, K),
    "kv_pool_bytes.vllm-bf16": lambda: capacity.pool_bytes(POOL["vllm"], K),
    "max_concurrency.vllm-bf16": lambda: capacity.residents(POOL["vllm"], 8192),
    "kv_sequence_bytes": lambda: roofline.sequence_bytes(1024, 256, K),
    "kv_sequence_time": lambda: roofline.sequence_time(1024, 256, K, B),
    "roofline_floor.vllm-bf16.c1": lambda: floor(VLLM, 1),
    "roofline_attainment.vllm-bf16.c1": lambda: roofline.attainment(floor(VLLM, 1), 15.83e-3),
    "roofline_attainment.vllm-bf16.c64": lambda: roofline.attainment(floor(VLLM, 64), 22.50e-3),
    "roofline_attainment.llamacpp-q4.c64": lambda: roofline.attainment(floor(LLAMA, 64), 35.32e-3),
    "marginal_cost.vllm-bf16": lambda: cost(15.83, 22.50),
    "marginal_cost.llamacpp-q4": lambda: cost(5.84, 35.32),
    "itl_growth.vllm-bf16": lambda: scaling.growth(22.50, 15.83),
    "itl_growth.llamacpp-q4": lambda: scaling.growth(35.32, 5.84),
    "scaling_efficiency.vllm-bf16.c64": lambda: scaling.efficiency(1387.8, 64, 61.9),
    "kv_demand.c64.1024+256": lambda: capacity.demand(64, 1024, 256, K),
    "kv_demand.c64.6144+2048": lambda: capacity.demand(64, 6144, 2048, K),
    "oversubscription": lambda: cliff.oversubscription(64, 6144, 2048, POOL["vllm"]),
    "residency_over_announced.round2": lambda: capacity.over_announced(15.65, capacity.residents(POOL["vllm"], 8192)),
    "residency_over_announced.round1": lambda: capacity.over_announced(11.17, 10.60),
    "preemption_share_of_intervals": lambda: capacity.preemption_share(38, 128 * 2048, 128),
    "decode_step_ratio": lambda: crossing.step_ratio(baseline=15.83e-3, challenger=5.84e-3),
    "single_stream_ratio": lambda: crossing.ratio(challenger=161.5, baseline=61.9),
    "peak_ratio": lambda: crossing.ratio(1387.8, 1064.8),
    "kv_pool_ratio": lambda: crossing.ratio(challenger=POOL["llama"], baseline=POOL["vllm"]),
    "decode_step_ratio_predicted": lambda: crossing.step_ratio(baseline=VLLM, challenger=LLAMA),
    "cliff_ttft_ratio": lambda: cliff.times(169.0, 0.787),
    "cliff_throughput_ratio": lambda: cliff.times(532.4, 1387.8),
    "cliff_itl_ratio": lambda: cliff.times(23.39, 22.50),
    "running_ratio_cliff": lambda: cliff.times(15.65, 59.9),
    "llamacpp_memory": lambda: fitting.needed(LLAMA, 1, POOL["llama"], K),
}


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair["id"] in COMPUTED], ids=lambda pair: pair["id"])
def test_a_published_figure_comes_out_of_its_formula(pair: dict) -> None:
    value = COMPUTED[pair["id"]]()
    if "value" in pair:
        assert value == pytest.approx(pair["value"], rel=1e-12)
    if "display" in pair:
        assert_shown(value, pair["display"])


def assert_shown(value: float, display: str) -> None:
    number = display.rstrip("KMGiBmsx% ").lstrip("+")
    unit = display.lstrip("+")[len(number) :].strip()
    decimals = len(number.partition(".")[2])
    assert round(value / SCALES[unit], decimals) == pytest.approx(float(number), abs=10**-decimals * 1e-6)


@pytest.mark.parametrize(("first", "last", "over"), [(15.83, 22.50, 1.6), (5.84, 35.32, 7.1)])
def test_the_marginal_cost_is_a_multiple_of_reading_one_sequence(first: float, last: float, over: float) -> None:
    assert round(roofline.over_kv(cost(first, last), 1024, 256, K, B), 1) == over


# no figure: a product of two numbers of the plan, and a ratio of two rounds
WITHOUT = {"iteration_tokens_cliff", "prefill_gain"}


def test_every_published_pair_is_computed_or_known_to_have_no_formula() -> None:
    assert {pair["id"] for pair in PAIRS} == COMPUTED.keys() | WITHOUT


def test_usl_published_throughputs_alone_do_not_fix_a_curve() -> None:
    lam, sigma, kappa = scaling.usl(np.array([1, 64]), np.array([61.9, 1387.8]))
    assert math.isfinite(lam)
    assert sigma >= 0
    assert kappa >= 0
