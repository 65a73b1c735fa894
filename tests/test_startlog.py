"""Start-up logs of several versions say the same things in other words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.startlog import GIB, MIB, facts

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
VLLM_GPU = """INFO 11-29 20:10:28 [gpu_model_runner.py:1] Model loading took 14.25 GiB and 3.1 seconds
INFO 11-29 20:10:29 [gpu_worker.py:2] Available KV cache memory: 6.41 GiB
INFO 11-29 20:10:29 [kv_cache_utils.py:3] GPU KV cache size: 120,064 tokens
INFO 11-29 20:10:29 [kv_cache_utils.py:4] Maximum concurrency for 8,192 tokens per request: 14.66x
INFO 11-29 20:10:40 [gpu_model_runner.py:5] Graph capturing finished in 9 secs, took 0.52 GiB
"""
LLAMA = """0.00.083.035 I load_tensors:          CPU model buffer size =     0.00 MiB
0.00.083.382 I llama_context: n_ctx                 = 8192
0.00.083.383 I llama_context: n_ctx_seq             = 2048
0.00.083.383 I llama_context: n_batch               = 2048
0.00.083.511 I llama_kv_cache:        CPU KV buffer size =     0.00 MiB
0.00.083.514 I llama_kv_cache: size =  180.00 MiB (  2048 cells,  30 layers,  4/4 seqs), K (f16):   90.00 MiB
0.00.483.035 I load_tensors:          CPU model buffer size =    92.10 MiB
0.00.483.382 I llama_context: n_ctx                 = 8192
0.00.483.511 I llama_kv_cache:        CPU KV buffer size =   180.00 MiB
0.02.922.071 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'
"""


def said(log: str) -> dict[str, float]:
    return {fact.name: fact.value for fact in facts(log)}


@pytest.mark.parametrize("log", [VLLM_027, VLLM_032], ids=["0.27", "0.32"])
def test_both_wordings_of_vllm_state_the_pool(log: str) -> None:
    found = said(log)
    assert (found["pool_tokens"], found["max_model_len"], found["announced_concurrency"]) == (46592, 2048, 22.75)
    assert found["model_bytes"] == 0.25 * GIB


def test_a_card_says_what_it_loaded_kept_and_captured() -> None:
    found = said(VLLM_GPU)
    assert found["pool_tokens"] == 120064
    assert found["announced_concurrency"] == 14.66
    assert [found[name] / GIB for name in ("model_bytes", "kv_bytes", "graph_bytes")] == [14.25, 6.41, 0.52]


def test_a_dry_run_of_llama_cpp_is_not_believed() -> None:
    found = said(LLAMA)
    assert found["kv_bytes"] == 180 * MIB
    assert found["model_bytes"] == 92.10 * MIB
    assert (found["slots"], found["max_model_len"], found["context_tokens"], found["unified"]) == (4, 2048, 8192, 0)


def test_a_fact_knows_the_line_and_the_pattern_that_state_it() -> None:
    lines = VLLM_027.split("\n")
    pool = next(fact for fact in facts(VLLM_027) if fact.name == "pool_tokens")
    assert "46,592" in lines[pool.line - 1]
    assert pool.line == 3


def test_a_log_that_says_nothing_gives_nothing() -> None:
    assert facts("") == []
    assert facts("KV cache size: many tokens\nn_slots = \n") == []


@given(st.text(max_size=300))
def test_no_text_breaks_the_reading(log: str) -> None:
    for fact in facts(f"GPU KV cache size: {log} tokens\n" + log):
        assert fact.line >= 1
