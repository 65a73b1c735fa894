"""FLOPs by the model against those that vLLM counts itself, in a recorded round."""

from __future__ import annotations

from pathlib import Path

import pytest

from genreport.figures import Figures, compute
from genreport.rounds import Round

ROUND = Path(__file__).parents[1] / "runs" / "round2"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded() -> Figures:
    return compute(Round(ROUND))


@pytest.mark.parametrize("level", ["concurrency.vllm-bf16.c1", "concurrency.vllm-bf16.c16", "cliff.vllm-bf16.normal"])
def test_where_prompts_are_short_the_model_counts_what_the_engine_counts(recorded, level):
    assert recorded.ledger[f"{level}.flops_over_model"].value == pytest.approx(1, abs=0.003)


@pytest.mark.parametrize("input", [128, 256, 512, 1024, 1792])
def test_over_long_prompts_the_engine_counts_attention_that_no_token_has(recorded, input):
    level, engine = f"length.vllm-bf16.in{input}", "engine.vllm-bf16"
    value = {q.id: q.value for q in recorded.ledger if q.id.startswith((level, engine))}
    unseen = 4 * value[f"{engine}.layers"] * value[f"{engine}.hidden"] * value[f"{level}.prompt_tokens"] * input / 2
    counted = value[f"{level}.flops"]
    model = counted / value[f"{level}.flops_over_model"]
    assert counted > model
    assert counted == pytest.approx(model + unseen, rel=0.014)
