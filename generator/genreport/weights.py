"""The weights an engine serves, from the headers of its model files: tensors, exact bytes, architecture, hashes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from safetensors import SafetensorError, safe_open

from genreport.errors import GenreportError
from genreport.records import Architecture, ModelFacts, ModelFile, Tensor

GGUF, SAFETENSORS, CONFIG = ".gguf", ".safetensors", "config.json"
# bits of one element, as the safetensors format names its types
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
OUTPUT_HEADS = {"output.weight", "lm_head.weight"}


def model_facts(paths: Iterable[Path | str]) -> ModelFacts:
    """What the model files say: `paths` are files, or folders that are taken whole; GenreportError where one is broken."""
    files = [file for path in paths for file in _files(Path(path))]
    weights = [file for file in files if file.suffix in (GGUF, SAFETENSORS)]
    if not weights:
        names = ", ".join(Path(path).name for path in paths) or "no file"
        raise GenreportError("no GGUF or safetensors file", where=names, cure="name the weights in `model_files`")
    found = [_gguf(file) if file.suffix == GGUF else _safetensors(file) for file in weights]
    tensors = [tensor for _, tensors in found for tensor in tensors]
    given = next((facts for facts, _ in found if facts), {})
    tied = bool(given.pop("tied", False)) or not OUTPUT_HEADS & {tensor.name for tensor in tensors}
    return ModelFacts(
        files=[_hashed(file) for file in files],
        architecture=Architecture(**given, tied_embeddings=tied),
        tensors=tensors,
    )


def _files(path: Path) -> list[Path]:
    """The files to hash: of a folder its weights and settings, of a safetensors file also the config beside it."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.suffix in (GGUF, SAFETENSORS, ".json"))
    if not path.is_file():
        raise GenreportError("no such model file", where=path.name, cure="correct `model_files`")
    config = path.with_name(CONFIG)
    return [path, config] if path.suffix == SAFETENSORS and config.is_file() else [path]


def _hashed(file: Path) -> ModelFile:
    with file.open("rb") as data:
        return ModelFile(
            name=file.name, sha256=hashlib.file_digest(data, "sha256").hexdigest(), bytes=file.stat().st_size
        )


def _broken(file: Path, error: Exception) -> GenreportError:
    what = f"not a readable model file: {type(error).__name__}: {str(error)[:200]}"
    return GenreportError(what, where=file.name, cure="fetch the file again or correct `model_files`")


def _gguf(file: Path) -> tuple[dict[str, Any], list[Tensor]]:
    try:
        reader = GGUFReader(file)
        tensors = [
            # ggml counts dimensions from the innermost
            Tensor(name=t.name, dtype=t.tensor_type.name, shape=t.shape.tolist()[::-1], bytes=int(t.n_bytes))
            for t in reader.tensors
        ]
        return _gguf_architecture(reader), tensors
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, OSError) as error:
        raise _broken(file, error) from None


def _gguf_architecture(reader: GGUFReader) -> dict[str, Any]:
    def field(name: str) -> Any:
        found = reader.get_field(name)
        return found.contents() if found else None

    family = field("general.architecture")
    tokens = reader.get_field("tokenizer.ggml.tokens")
    return _architecture(
        name=field("general.name") or family,
        layers=field(f"{family}.block_count"),
        hidden=field(f"{family}.embedding_length"),
        heads=field(f"{family}.attention.head_count"),
        kv_heads=field(f"{family}.attention.head_count_kv"),
        head_dim=field(f"{family}.attention.key_length"),
        vocabulary=field(f"{family}.vocab_size") or (len(tokens.data) if tokens else None),
        context=field(f"{family}.context_length"),
    )


def _safetensors(file: Path) -> tuple[dict[str, Any], list[Tensor]]:
    try:
        with safe_open(file, framework="numpy") as header:
            views = {name: header.get_slice(name) for name in header.keys()}  # noqa: SIM118
            tensors = [_tensor(name, view.get_dtype(), view.get_shape()) for name, view in views.items()]
        config = file.with_name(CONFIG)
        return (_config_architecture(json.loads(config.read_bytes())) if config.is_file() else {}), tensors
    except (SafetensorError, ValueError, KeyError, AttributeError, OSError) as error:
        raise _broken(file, error) from None


def _tensor(name: str, dtype: str, shape: list[int]) -> Tensor:
    return Tensor(name=name, dtype=dtype, shape=shape, bytes=math.prod(shape) * BITS[dtype] // 8)


def _config_architecture(config: dict[str, Any]) -> dict[str, Any]:
    text = config.get("text_config") or config  # models that see and hear keep their language part there
    heads = text.get("num_attention_heads")
    return _architecture(
        name=next(iter(config.get("architectures") or []), None) or config.get("model_type"),
        layers=text.get("num_hidden_layers"),
        hidden=text.get("hidden_size"),
        heads=heads,
        kv_heads=text.get("num_key_value_heads", heads),
        head_dim=text.get("head_dim"),
        vocabulary=text.get("vocab_size"),
        context=text.get("max_position_embeddings"),
    ) | {"tied": config.get("tie_word_embeddings", text.get("tie_word_embeddings"))}


def _architecture(*, name: Any, hidden: Any, heads: Any, head_dim: Any, **sizes: Any) -> dict[str, Any]:
    """Whole numbers only: a model whose layers differ has a list there, and no single number to state."""
    sizes = {"hidden": hidden, "heads": heads, "head_dim": head_dim} | sizes
    whole = {key: size if isinstance(size, int) and size > 0 else None for key, size in sizes.items()}
    if whole["head_dim"] is None and whole["hidden"] and whole["heads"]:
        whole["head_dim"] = whole["hidden"] // whole["heads"]
    return {"name": name if isinstance(name, str) else None, **whole}
