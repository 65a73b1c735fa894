"""Start-up logs of several versions say the same things in other words; tests/logs holds composed ones."""

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.startlog import GIB, LINE, MIB, PARTS, SPOKEN, STATEMENTS, VLLM, each, facts, memory

LOGS = Path(__file__).parent / "logs"
LAUNCHES = Path(__file__).parents[1] / "runs" / "round2" / "launches"

VLLM_027 = """(Worker pid=669) INFO 11-29 20:10:28 [weight_utils.py:867] Checkpoint size: 0.25 GiB.
(Worker pid=669) INFO 11-29 20:10:29 [cpu_worker.py:248] Explicitly set (1.0/14.96) GiB for KV cache on node 0.
(EngineCore pid=642) INFO 11-29 20:10:29 [kv_cache_utils.py:2235] GPU KV cache size: 46,592 tokens
(EngineCore pid=642) INFO 11-29 20:10:29 [k.py:2236] Maximum concurrency for 2,048 tokens per request: 22.75x
(EngineCore pid=642) INFO 11-29 20:10:29 [core.py:355] init engine (profile, create kv cache, warmup model) took 0.58 s
"""
VLLM_032 = """(Worker pid=17023) INFO 11-29 19:47:52 [weight_utils.py:1108] Checkpoint size: 0.25 GiB.
(EngineCore pid=16795) INFO 11-29 19:50:15 [k.py:2327] CPU KV cache size: 46,592 tokens, Maximum concurrency for \
2,048 tokens per request: 22.75x
"""
LLAMA = """0.00.083.035 I load_tensors:          CPU model buffer size =     0.00 MiB
0.00.083.382 I llama_context: n_ctx                 = 8192
0.00.083.383 I llama_context: n_ctx_seq             = 2048
0.00.083.383 I llama_context: n_batch               = 2048
0.00.083.511 I llama_kv_cache:        CPU KV buffer size =     0.00 MiB
0.00.083.514 I llama_kv_cache: size =  180.00 MiB (  2048 cells,  30 layers,  4/4 seqs), K (f16):   90.00 MiB
0.00.400.000 I llama_model_loader: loaded meta data with 33 key-value pairs and 272 tensors from m.gguf (version GGUF V3)
0.00.483.035 I load_tensors:          CPU model buffer size =    92.10 MiB
0.00.483.382 I llama_context: n_ctx                 = 8192
0.00.483.511 I llama_kv_cache:        CPU KV buffer size =   180.00 MiB
0.02.922.071 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'
"""


def composed(name: str) -> str:
    return (LOGS / f"composed-{name}.log").read_text("utf-8")


def said(log: str) -> dict[str, float]:
    return {fact.name: fact.value for fact in facts(log)}


def spoken(log: str) -> dict[str, dict[str, float]]:
    return {name: {fact.who: fact.value for fact in found} for name, found in each(log).items()}


def parts(log: str, kind: str = "vllm") -> dict[str, dict[str, float]]:
    """part → place/who → GiB, or MiB of llama.cpp."""
    found: dict[str, dict[str, float]] = {}
    for fact in memory(log, kind):
        found.setdefault(fact.name, {})[f"{fact.place}/{fact.who}"] = fact.value / (MIB if kind == "llamacpp" else GIB)
    return found


# ------------------------------------------------------------------------------------- what a log says once


@pytest.mark.parametrize("log", [VLLM_027, VLLM_032], ids=["0.27", "0.32"])
def test_both_wordings_of_vllm_state_the_pool(log: str) -> None:
    assert said(log)["max_model_len"] == 2048
    assert spoken(log)["pool_tokens"] == {"EngineCore": 46592}
    assert spoken(log)["announced_concurrency"] == {"EngineCore": 22.75}
    assert parts(log)["weights"] == {"card/all": 0.25}


def test_a_fact_knows_the_line_and_the_pattern_that_state_it() -> None:
    lines = VLLM_027.split("\n")
    [pool] = each(VLLM_027)["pool_tokens"]
    assert "46,592" in lines[pool.line - 1]
    assert pool.line == 3


def test_old_versions_state_blocks_and_their_size() -> None:
    assert spoken(composed("vllm-0.6-v0"))["gpu_blocks"] == {"engine": 7504}
    assert said(composed("vllm-0.6-v0"))["block_size"] == 16
    assert spoken(composed("vllm-0.7-blocks")) == {
        "pool_tokens": {}, "announced_concurrency": {"engine": 10.79}, "gpu_blocks": {"engine": 1381},
    }  # fmt: skip


def test_an_engine_of_several_ranks_has_the_smallest_pool_that_it_states() -> None:
    found = spoken(composed("vllm-0.12-two-ranks"))
    assert found["pool_tokens"] == {"EngineCore_DP0": 395008}
    assert found["announced_concurrency"] == {"EngineCore_DP0": 48.22}


def test_a_pool_that_is_stated_while_graphs_are_profiled_is_none() -> None:
    assert spoken(composed("vllm-0.22-one-of-four-ranks"))["pool_tokens"] == {"EngineCore": 224353}


def test_each_engine_of_a_data_parallel_server_states_its_pool() -> None:
    assert spoken(composed("vllm-two-engines"))["pool_tokens"] == {"EngineCore_DP0": 120064, "EngineCore_DP1": 112352}


def test_llama_cpp_states_slots_context_and_whether_they_share_it() -> None:
    found = said(LLAMA)
    assert (found["slots"], found["max_model_len"], found["context_tokens"], found["unified"]) == (4, 2048, 8192, 0)
    assert said(composed("llamacpp-2024-two-cards"))["context_tokens"] == 4096


# ------------------------------------------------------------------------------------- memory


def test_a_card_says_what_it_loaded_kept_and_captured() -> None:
    assert parts(composed("vllm-0.10-card")) == {
        "weights": {"card/engine": 14.25}, "kv": {"card/engine": 6.41}, "graphs": {"card/engine": 0.52},
    }  # fmt: skip


def test_each_rank_states_its_own_share() -> None:
    found = parts(composed("vllm-0.12-two-ranks"))
    assert found["weights"] == {"card/Worker_TP0": 7.63, "card/Worker_TP1": 7.65}
    assert found["kv"] == {"card/Worker_TP0": 12, "card/Worker_TP1": 11}
    assert found["compute"] == {"card/Worker_TP0": 1.4, "card/Worker_TP1": 1.6}
    assert found["graphs"] == {"card/Worker_TP0": 0.54, "card/Worker_TP1": 0.56}
    assert found["other"] == {"card/Worker_TP0": 0.03, "card/Worker_TP1": 0.05}


def test_the_old_profiler_states_all_in_one_line_a_rank() -> None:
    found = parts(composed("vllm-0.6-v0"))
    assert found["weights"] == {"card/engine": 7.5, "card/VllmWorkerProcess": 7.5}
    assert found["kv"] == {"card/engine": 6, "card/VllmWorkerProcess": 5}
    assert found["compute"] == {"card/engine": 1, "card/VllmWorkerProcess": 1.25}
    assert found["other"] == {"card/engine": -0.25, "card/VllmWorkerProcess": 0.25}
    assert "graphs" not in found


def test_a_version_that_joins_weights_and_the_rest_is_read_so() -> None:
    found = parts(composed("vllm-0.22-one-of-four-ranks"))
    assert (found["consumed"], found["weights"]) == ({"card/Worker_TP0": 11.75}, {"card/Worker_TP0": 10.25})
    assert (found["graphs"], found["kv"]) == ({"card/Worker_TP0": 0.5}, {"card/Worker_TP0": 8.5})
    assert "other" not in found


def test_a_dry_run_of_llama_cpp_is_not_believed() -> None:
    assert parts(LLAMA, "llamacpp") == {"weights": {"host/CPU": 92.10}, "kv": {"host/CPU": 180}}


def test_llama_cpp_states_the_buffers_of_each_device() -> None:
    found = parts(composed("llamacpp-2024-two-cards"), "llamacpp")
    assert found["weights"] == {"host/CPU": 1640.5, "card/CUDA0": 5434.5, "card/CUDA1": 13989.5}
    assert found["kv"] == {"card/CUDA0": 1536, "card/CUDA1": 3584}
    assert found["compute"] == {"card/CUDA0": 672, "card/CUDA1": 672.5, "host/CUDA_Host": 48}
    assert found["other"] == {"host/CUDA_Host": 1.5}


def test_a_window_cache_and_a_draft_model_count_and_a_second_reservation_replaces_the_first() -> None:
    found = parts(composed("llamacpp-2026-windows-and-draft"), "llamacpp")
    assert found["weights"] == {
        "host/CPU_Mapped": 400,
        "host/CPU_Mapped-2": 100,
        "card/CUDA0": 4000,
        "card/CUDA0-2": 300,
    }
    assert found["kv"] == {"card/CUDA0": 256, "card/CUDA0-2": 120, "card/CUDA0-3": 16}
    assert found["compute"] == {"card/CUDA0": 512, "card/CUDA0-2": 64, "host/CUDA_Host": 32}


def test_sums_stand_in_where_a_log_names_no_device() -> None:
    log = (
        "print_info: file size   = 92.10 MiB (5.74 BPW)\nllama_init_from_model: KV self size  =  180.00 MiB, K (f16)\n"
    )
    assert parts(log, "llamacpp") == {"weights": {"host/all": 92.10}, "kv": {"host/all": 180}}


def test_workers_of_ray_are_told_apart() -> None:
    worker = "(RayWorkerWrapper pid={}, ip=192.0.2.{}) INFO Model loading took {} GiB memory\n"
    log = worker.format(1, 1, 2.5) + worker.format(2, 1, 3.5) + worker.format(1, 1, 4.5)
    assert parts(log)["weights"] == {"card/RayWorkerWrapper": 4.5, "card/RayWorkerWrapper-2": 3.5}


@pytest.mark.parametrize(
    ("start", "kind", "expected"),
    [
        ("vllm-bf16", "vllm", {"weights": 256, "kv": 1024}),
        ("llamacpp-q4", "llamacpp", {"weights": 92.10, "kv": 360, "compute": 15.64, "other": 3}),
        ("llamacpp-bf16", "llamacpp", {"weights": 256.63, "kv": 360, "compute": 15.64, "other": 3}),
    ],
)
def test_the_logs_of_a_recorded_round_are_read(start: str, kind: str, expected: dict[str, float]) -> None:
    log = gzip.decompress((LAUNCHES / start / "1" / "start.log.gz").read_bytes()).decode("utf-8")
    found = memory(log, kind)
    assert {fact.name: pytest.approx(fact.value / MIB) for fact in found} == expected
    assert {fact.place for fact in found} == {"host"}


# ------------------------------------------------------------------------------------- any text


def test_a_log_that_says_nothing_gives_nothing() -> None:
    nothing = "KV cache size: many tokens\nn_slots = \nModel loading took 1.2.3 GiB\n"
    for log in ("", nothing):
        assert facts(log) == []
        assert memory(log, "vllm") == memory(log, "llamacpp") == []
        assert not any(each(log).values())


def test_a_number_that_the_limit_of_a_line_may_cut_is_none() -> None:
    assert parts("x" * (LINE - 30) + "Model loading took 14.2512345 GiB") == {}


GOOD = [*(LOGS.glob("*.log"))]
WORDS = st.sampled_from([line for file in GOOD for line in file.read_text("utf-8").split("\n")])


@given(st.lists(st.one_of(WORDS, st.text(max_size=60)), max_size=30))
def test_no_text_breaks_the_reading_and_every_line_states_its_fact(lines: list[str]) -> None:
    log = "\n".join(lines)
    stated = [
        *facts(log),
        *memory(log, "vllm"),
        *memory(log, "llamacpp"),
        *(f for fs in each(log).values() for f in fs),
    ]
    for fact in stated:
        group = re.search(fact.pattern, log.split("\n")[fact.line - 1])[1]
        assert group in ("true", "false") or float(group.replace(",", "")) * fact.scale == fact.value
        assert fact.name in {*PARTS, *STATEMENTS, *SPOKEN, *VLLM}
        assert re.fullmatch(r"[A-Za-z0-9_+-]*", fact.who)
    for kind in ("vllm", "llamacpp"):
        named = [(fact.name, fact.place, fact.who) for fact in memory(log, kind)]
        assert len(named) == len(set(named))
