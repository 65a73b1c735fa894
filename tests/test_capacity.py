"""The byte account of a model, by one rule for every engine, and KV where arithmetic over it holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import audited
from compose import Engine, compose_round, sweep
from genreport.figures import Figures, compute
from genreport.figures.capacity import group, packed, read_per_step
from genreport.records import Tensor
from genreport.rounds import Round

VLLM = Engine("vllm-bf16", "vllm", "bf16", baseline=True)
SCOPE = "engine.vllm-bf16"


def tensor(name: str, dtype: str = "BF16", shape: tuple[int, ...] = (2, 2), bytes: int = 8) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=list(shape), bytes=bytes)


@pytest.fixture
def figures_of(tmp_path: Path) -> Callable[..., Figures]:
    """A composed round whose model has these tensors and facts of its architecture."""

    def make(*tensors: Tensor, **architecture: object) -> Figures:
        compose_round(tmp_path / "composed", engines=(VLLM,), tests=(sweep(1),), repeats=1)
        [file] = (tmp_path / "composed" / "models").glob("*.json")
        model = json.loads(file.read_bytes())
        model["architecture"] |= architecture
        if tensors:
            model["tensors"] = [each.model_dump() for each in tensors]
        file.write_text(json.dumps(model, indent=1))
        figures = compute(Round(tmp_path / "composed"))
        audited.recomputed(figures)
        return figures

    return make


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.0.self_attn.q_proj.bias", "attention"),
        ("blk.0.attn_q.bias", "attention"),
        ("blk.0.attn_output.weight", "attention"),
        ("blk.0.attn_norm.weight", "norm"),
        ("model.layers.3.block_sparse_moe.gate.weight", "mlp"),
        ("model.layers.3.mlp.shared_expert.up_proj.weight", "mlp"),
        ("blk.3.ffn_gate_exps.weight", "mlp"),
        ("blk.3.ffn_gate_inp.weight", "mlp"),
        ("language_model.lm_head.weight", "output"),
        ("lm_head.weight_packed", "output"),
        ("output.weight", "output"),
        ("encoder.layer.0.output.dense.weight", "other"),
        ("token_embd.weight", "embedding"),
        ("per_layer_token_embd.weight", "embedding"),
        ("model.visual.blocks.0.attn.qkv.weight", "other"),
        ("v.blk.0.attn_q.weight", "other"),
        ("rope_freqs.weight", "other"),
    ],
)
def test_one_rule_names_the_part_of_every_tensor(name: str, part: str) -> None:
    assert group(name) == part


def read(*names: str, tied: bool | None = None) -> list[str]:
    return [names[k] for k in read_per_step([tensor(name) for name in names], tied)]


def test_of_several_tables_only_the_one_of_the_tokens_is_read_as_the_head() -> None:
    assert read("token_embd.weight", "per_layer_token_embd.weight", "blk.0.attn_q.weight", tied=True) == [
        "token_embd.weight", "blk.0.attn_q.weight",
    ]  # fmt: skip
    assert read("embedder.embedding", "w", tied=True) == ["embedder.embedding", "w"]


def test_a_tied_head_that_is_stored_counts_once() -> None:
    assert read("model.embed_tokens.weight", "lm_head.weight", tied=True) == ["lm_head.weight"]


def test_a_step_of_text_reads_nothing_of_what_sees_or_hears() -> None:
    names = ("vision_tower.blocks.0.mlp.weight", "audio_tower.conv.weight", "mm.0.weight", "lm_head.weight")
    assert read(*names) == ["lm_head.weight"]


@pytest.mark.parametrize(
    ("name", "dtype", "is_packed"),
    [
        ("model.layers.0.mlp.up_proj.qweight", "I32", True),
        ("model.layers.0.mlp.up_proj.weight_packed", "I32", True),
        ("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", True),
        ("model.layers.0.mlp.up_proj.weight", "U8", True),
        ("model.layers.0.mlp.up_proj.weight", "I8", False),
        ("model.layers.0.mlp.up_proj.weight", "F8_E4M3", False),
        ("blk.0.ffn_up.weight", "Q4_K", False),
    ],
)
def test_a_tensor_whose_elements_hold_several_weights_is_known(name: str, dtype: str, is_packed: bool) -> None:
    assert packed(tensor(name, dtype)) is is_packed


def test_packed_weights_have_bytes_and_no_count_of_parameters(figures_of) -> None:
    figures = figures_of(tensor("model.layers.0.mlp.up_proj.qweight", "I32", bytes=16), tensor("lm_head.weight"))
    assert figures.ledger[f"{SCOPE}.weights_bytes"].value == 24
    assert figures.ledger[f"{SCOPE}.parameters_read"].reason == "the files pack several weights into one element"


@pytest.mark.parametrize("head", ["lm_head.weight", "model.embed_tokens.weight"], ids=["own head", "tied table"])
def test_the_body_is_what_a_step_reads_without_the_output_head(figures_of, head: str) -> None:
    figures = figures_of(tensor(head, shape=(4, 3)), tensor("model.layers.0.mlp.up_proj.weight", shape=(2, 3)))
    found = [figures.ledger[f"{SCOPE}.parameters_{of}"].value for of in ("read", "body")]
    assert found == [18, 6]


def test_a_scale_without_sides_is_no_parameter(figures_of) -> None:
    figures = figures_of(tensor("lm_head.weight"), tensor("model.layers.0.mlp.up_proj.weight_scale", shape=(), bytes=4))
    assert figures.ledger[f"{SCOPE}.parameters"].value == 4
    assert figures.ledger[f"{SCOPE}.weights_bytes"].value == 12


def test_what_was_left_out_or_counted_whole_is_noted(figures_of) -> None:
    figures = figures_of(
        tensor("visual.patch.weight"),
        tensor("blk.0.ffn_up_exps.weight"),
        tensor("token_embd.weight"),
        tied_embeddings=True,
    )
    assert figures.ledger[f"{SCOPE}.weights_bytes"].notes == (
        "tied_embeddings_read_as_output", "all_experts_counted", "towers_not_read",
    )  # fmt: skip
    assert figures.ledger[f"{SCOPE}.weights_bytes"].value == 16


@pytest.mark.parametrize(
    ("attention", "why"),
    [
        ("latent", "in a compressed form"),
        ("state", "a state of fixed size"),
        ("window", "further back than a window"),
        ("uneven", "differ in width"),
    ],
)
def test_where_arithmetic_does_not_hold_kv_is_unknown_and_says_why(figures_of, attention: str, why: str) -> None:
    figures = figures_of(attention=attention)
    for name in ("kv_bytes_per_token", "pool_bytes", "full_context_bytes"):
        assert why in figures.ledger[f"{SCOPE}.{name}"].reason
    assert why in figures.ledger["concurrency.vllm-bf16.c1.floor_s"].reason


@pytest.mark.parametrize("attention", ["full", None])
def test_keys_and_values_in_full_are_counted(figures_of, attention: str | None) -> None:
    assert figures_of(attention=attention).ledger[f"{SCOPE}.kv_bytes_per_token"].value == 2 * 2 * 2 * 16 * 2
