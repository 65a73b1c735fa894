"""The weights an engine serves, from the headers of its model files: tensors, exact bytes, architecture, hashes."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from safetensors import SafetensorError, safe_open

from genreport.errors import GenreportError
from genreport.records import Architecture, ModelFacts, ModelFile, Tensor

GGUF, SAFETENSORS, CONFIG, INDEX = ".gguf", ".safetensors", "config.json", "model.safetensors.index.json"
# bits of one element, as the safetensors format names its types
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "U16": 16, "I16": 16, "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
OUTPUT_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.|^output\.")
# one of several files that make a model, as both formats name them
PART = re.compile(r"(.*-)(\d{5})-of-(\d{5})(\.gguf|\.safetensors)")
ADAPTER = "adapter"


def model_facts(paths: Iterable[Path | str]) -> ModelFacts:
    """What the model files say: `paths` are files, or folders that are taken whole; GenreportError where one is broken.

    One part of a model that is split stands for all of them. Adapters are no weights of the model and are left out.
    """
    paths = [Path(path) for path in paths]
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    weights = [file for file in files if file.suffix in (GGUF, SAFETENSORS)]
    found = [_gguf(file) if file.suffix == GGUF else _safetensors(file) for file in weights]
    kept = [(file, facts, tensors) for file, (facts, tensors) in zip(weights, found, strict=True) if facts is not None]
    if not kept:
        names = ", ".join(path.name for path in paths) or "no file"
        raise GenreportError(
            "no GGUF or safetensors file of a model", where=names, cure="name the weights in `model_files`"
        )
    _refuse_twice(kept)
    tensors = [tensor for _, _, tensors in kept for tensor in tensors]
    given = next((facts for _, facts, _ in kept if facts), {})
    tied = bool(given.pop("tied", False)) or not any(OUTPUT_HEAD.search(tensor.name) for tensor in tensors)
    left = {file for file in weights if all(file != other for other, _, _ in kept)}
    return ModelFacts(
        files=[_hashed(file) for file in files if file not in left],
        architecture=Architecture(**given, tied_embeddings=tied),
        tensors=tensors,
    )


def _files(path: Path) -> list[Path]:
    """The files to hash: of a folder its weights and settings, of a safetensors file also the config beside it."""
    if path.is_dir():
        return _of_folder(path)
    if not path.is_file():
        raise GenreportError("no such model file", where=path.name, cure="correct `model_files`")
    config = path.with_name(CONFIG)
    beside = [config] if path.suffix == SAFETENSORS and config.is_file() else []
    return [*_parts(path), *beside]


def _parts(file: Path) -> list[Path]:
    """All files of a model that is split, in their order; else the file alone."""
    part = PART.fullmatch(file.name)
    if part is None:
        return [file]
    files = [file.with_name(f"{part[1]}{k:05}-of-{part[3]}{part[4]}") for k in range(1, int(part[3]) + 1)]
    lost = next((other for other in files if not other.is_file()), None)
    if lost is not None:
        raise GenreportError(
            "a part of the model is not there", where=lost.name, cure="fetch it, or correct `model_files`"
        )
    return files or [file]


def _of_folder(folder: Path) -> list[Path]:
    """Weights and settings; where an index names the weights, those alone: others are copies in another layout."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (GGUF, SAFETENSORS, ".json"))
    listed = _listed(folder / INDEX)
    return [file for file in files if not listed or file.suffix == ".json" or file.name in listed]


def _listed(index: Path) -> set[str]:
    """The files that an index of shards names; one that is not there is an error."""
    if not index.is_file():
        return set()
    try:
        names = {str(name) for name in json.loads(index.read_bytes())["weight_map"].values()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise _broken(index, error) from None
    lost = next((name for name in sorted(names) if not index.with_name(Path(name).name).is_file()), None)
    if lost is not None:
        raise GenreportError("a part of the model is not there", where=Path(lost).name, cure="fetch it again")
    return names


def _refuse_twice(kept: list[tuple[Path, dict[str, Any], list[Tensor]]]) -> None:
    """A tensor that stands in two files would count twice: they are two copies of the model, or two models."""
    seen: dict[str, Path] = {}
    for file, _, tensors in kept:
        for tensor in tensors:
            if seen.setdefault(tensor.name, file) != file:
                raise GenreportError(
                    f"{tensor.name} stands in {seen[tensor.name].name} too", where=file.name,
                    cure="name the files that the engine loads in `model_files`, and no others",
                )  # fmt: skip


def _hashed(file: Path) -> ModelFile:
    with file.open("rb") as data:
        return ModelFile(
            name=file.name, sha256=hashlib.file_digest(data, "sha256").hexdigest(), bytes=file.stat().st_size
        )


def _broken(file: Path, error: Exception) -> GenreportError:
    what = f"not a readable model file: {type(error).__name__}: {str(error)[:200]}"
    return GenreportError(what, where=file.name, cure="fetch the file again or correct `model_files`")


# ------------------------------------------------------------------------------------- GGUF


def _gguf(file: Path) -> tuple[dict[str, Any] | None, list[Tensor]]:
    """Architecture and tensors; the architecture of an adapter is `None`."""
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


def _gguf_architecture(reader: GGUFReader) -> dict[str, Any] | None:
    def field(name: str) -> Any:
        found = reader.get_field(name)
        return found.contents() if found else None

    if field("general.type") == ADAPTER:
        return None
    family = field("general.architecture")
    tokens = reader.get_field("tokenizer.ggml.tokens")
    if family is None or field("general.type") == "mmproj":
        return {}  # a later part of a split model, or what sees and hears for it
    return _architecture(
        name=field("general.name") or family,
        layers=field(f"{family}.block_count"),
        hidden=field(f"{family}.embedding_length"),
        heads=field(f"{family}.attention.head_count"),
        kv_heads=field(f"{family}.attention.head_count_kv"),
        head_dim=field(f"{family}.attention.key_length"),
        vocabulary=field(f"{family}.vocab_size") or (len(tokens.data) if tokens else None),
        context=field(f"{family}.context_length"),
    ) | {"attention": _gguf_attention(family, field)}


def _gguf_attention(family: str, field: Any) -> str:
    key, value = field(f"{family}.attention.key_length"), field(f"{family}.attention.value_length")
    return _attention(
        latent=field(f"{family}.attention.kv_lora_rank"),
        state=field(f"{family}.ssm.state_size") or field(f"{family}.wkv.head_size"),
        window=field(f"{family}.attention.sliding_window"),
        context=field(f"{family}.context_length"),
        uneven=bool(value and key and value != key)
        or isinstance(_one(field(f"{family}.attention.head_count_kv")), list),
    )


# ------------------------------------------------------------------------------------- safetensors


def _safetensors(file: Path) -> tuple[dict[str, Any] | None, list[Tensor]]:
    if file.name.startswith(ADAPTER):
        return None, []
    try:
        with safe_open(file, framework="numpy") as header:
            views = {name: header.get_slice(name) for name in header.keys()}  # noqa: SIM118
            tensors = [_tensor(name, view.get_dtype(), view.get_shape()) for name, view in views.items()]
        config = file.with_name(CONFIG)
        return (_config_architecture(json.loads(config.read_bytes())) if config.is_file() else {}), tensors
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
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
        kv_heads=_kv_heads(text, heads),
        head_dim=text.get("head_dim"),
        vocabulary=text.get("vocab_size"),
        context=text.get("max_position_embeddings"),
    ) | {
        "tied": config.get("tie_word_embeddings", text.get("tie_word_embeddings")),
        "attention": _config_attention(text),
    }


def _kv_heads(text: dict[str, Any], heads: Any) -> Any:
    """Heads that have keys and values of their own; older models say it in other words."""
    stated = (text.get(name) for name in ("num_key_value_heads", "num_kv_heads", "multi_query_group_num"))
    return next((number for number in stated if number is not None), 1 if text.get("multi_query") is True else heads)


def _config_attention(text: dict[str, Any]) -> str:
    kinds = text.get("layer_types") or text.get("layers_block_type") or text.get("hybrid_override_pattern") or []
    plain = {"full_attention", "attention", "sliding_attention", "chunked_attention"}
    windowed = text.get("use_sliding_window", True) is not False
    other = not isinstance(kinds, list) or any(kind not in plain for kind in kinds)
    return _attention(
        latent=text.get("kv_lora_rank"),
        state=other or text.get("ssm_state_size") or text.get("state_size") or text.get("mamba_d_state"),
        window=(text.get("sliding_window") or text.get("attention_chunk_size")) if windowed else None,
        context=text.get("max_position_embeddings"),
        uneven=bool(text.get("v_head_dim") and text.get("head_dim") and text["v_head_dim"] != text["head_dim"])
        or bool(text.get("num_kv_shared_layers")),
    )


# ------------------------------------------------------------------------------------- both


def _attention(*, latent: Any, state: Any, window: Any, context: Any, uneven: bool) -> str:
    """What a layer keeps of a token: `full` keys and values in all, or why their arithmetic does not hold.

    `latent`: a compressed form of both; `state`: some layers keep a state of fixed size instead; `window`: some forget what
    is further back than a window; `uneven`: layers, or keys and values, differ in width.
    """
    if latent:
        return "latent"
    if state:
        return "state"
    # a window as long as the longest request is none
    if isinstance(window, int) and window > 0 and not (isinstance(context, int) and window >= context):
        return "window"
    return "uneven" if uneven else "full"


def _architecture(*, name: Any, hidden: Any, heads: Any, head_dim: Any, **sizes: Any) -> dict[str, Any]:
    """Whole numbers only: a model whose layers differ has a list there, and no single number to state."""
    sizes = {"hidden": hidden, "heads": heads, "head_dim": head_dim} | sizes
    sizes = {key: _one(size) for key, size in sizes.items()}
    whole = {key: size if isinstance(size, int) and size > 0 else None for key, size in sizes.items()}
    if whole["head_dim"] is None and whole["hidden"] and whole["heads"]:
        whole["head_dim"] = whole["hidden"] // whole["heads"]
    return {"name": name if isinstance(name, str) else None, **whole}


def _one(size: Any) -> Any:
    """The number of a list that says the same of every layer, else what is given."""
    return size[0] if isinstance(size, list) and size and all(each == size[0] for each in size) else size
