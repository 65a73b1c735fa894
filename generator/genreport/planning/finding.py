"""Which engines answer, and what they are, told by endpoints that only one kind of server has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from genreport.engines.asking import asked
from genreport.errors import OptionError

# where vLLM and TGI in a container, llama.cpp and TGI, SGLang, and Ollama listen unless told otherwise
PORTS = (8000, 8001, 8080, 8081, 3000, 30000, 11434)
WITHIN_S = 3.0
PATHS = (
    "/v1/models", "/version", "/props", "/get_model_info", "/model_info", "/info", "/api/version", "/api/tags",
    "/api/ps",
)  # fmt: skip
Answers = dict[str, Any]
UNNAMED = "MODEL"  # stands for the name of a model that a server does not tell


@dataclass(frozen=True)
class Found:
    """A server that answers: its kind in the plan's words, and what it said of itself."""

    url: str
    kind: str
    version: str | None
    # the one to measure first; never empty
    models: list[str]
    vocabulary: int | None = None
    context: int | None = None
    slots: int | None = None
    locked: bool = False


def address(url: str) -> str:
    """The root of a server whose address somebody typed; OptionError where it is none."""
    try:
        scheme, host = (parsed := httpx.URL(url)).scheme, parsed.host
    except (httpx.InvalidURL, ValueError) as error:  # ValueError: of a name that no host can have
        raise OptionError(f"is no address: {error}", where=f"--url {url}") from None
    if scheme not in ("http", "https") or not host:
        raise OptionError("is no address that begins with http:// or https://", where=f"--url {url}")
    return url.rstrip("/").removesuffix("/v1")


def look(urls: Sequence[str], key: str | None = None) -> list[Found]:
    """The servers among these addresses, asked side by side; what does not answer, or is none, is left out."""
    return asyncio.run(_look(urls, key))


async def _look(urls: Sequence[str], key: str | None) -> list[Found]:
    found = await asyncio.gather(*(_server(url.rstrip("/"), key) for url in urls))
    return [server for server in found if server is not None]


async def _server(url: str, key: str | None) -> Found | None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=WITHIN_S, trust_env=False) as client:
        try:
            async with client.stream("GET", "/v1/models") as response:  # not all servers know how to answer a HEAD
                status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
        bodies = await asyncio.gather(*(asked(client, path, WITHIN_S) for path in PATHS))
    answers = {path: _json(body) for path, body in zip(PATHS, bodies, strict=True) if body is not None}
    if status in (401, 403) and "/v1/models" not in answers:
        return Found(url, "openai", None, [UNNAMED], locked=True)
    return recognised(url, answers)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def recognised(url: str, answers: Answers) -> Found | None:
    """What the answers of a server show it to be; `None` where it lists no model."""
    for kind, tells in KINDS:
        if (version := tells(answers)) is not None:
            return _described(url, kind, version or None, answers)
    return _described(url, "openai", None, answers) if _models(answers) else None


def _owner(answers: Answers) -> str:
    return str(next((model.get("owned_by") for model in _listed(answers)), ""))


def _ollama(answers: Answers) -> str | None:
    return _text(answers, "/api/version", "version") if isinstance(_at(answers, "/api/tags", "models"), list) else None


def _tgi(answers: Answers) -> str | None:
    text = _at(answers, "/info", "model_id") and _at(answers, "/info", "max_total_tokens")
    return (_text(answers, "/info", "version") or "") if text else None


def _sglang(answers: Answers) -> str | None:
    told = any(_at(answers, path, "model_path") for path in ("/get_model_info", "/model_info"))
    return "" if told or _owner(answers) == "sglang" else None


def _llamacpp(answers: Answers) -> str | None:
    told = _at(answers, "/props", "default_generation_settings") or _owner(answers) == "llamacpp"
    return (_text(answers, "/props", "build_info") or "") if told else None


def _vllm(answers: Answers) -> str | None:
    version = _text(answers, "/version", "version")
    if _owner(answers) == "vllm":
        return version or ""
    return version if _owner(answers) == "" else None


# in this order: SGLang and TGI answer some of the others' paths too
KINDS: tuple[tuple[str, Callable[[Answers], str | None]], ...] = (
    ("ollama", _ollama), ("tgi", _tgi), ("sglang", _sglang), ("llamacpp", _llamacpp), ("vllm", _vllm),
)  # fmt: skip


def _described(url: str, kind: str, version: str | None, answers: Answers) -> Found:
    meta = next((model.get("meta") for model in _listed(answers)), None)
    known = meta if isinstance(meta, dict) else {}
    longest = next((model.get("max_model_len") for model in _listed(answers)), None)
    context = longest or _at(answers, "/info", "max_total_tokens")
    settings = _at(answers, "/props", "default_generation_settings")
    context = context or (settings.get("n_ctx") if isinstance(settings, dict) else None)
    return Found(
        url, kind, version, _models(answers) or [UNNAMED], _count(known.get("n_vocab")), _count(context),
        _count(_at(answers, "/props", "total_slots")),
    )  # fmt: skip


def _models(answers: Answers) -> list[str]:
    """Model names, those that are loaded first."""
    loaded = [str(m.get("name")) for m in _list(_at(answers, "/api/ps", "models")) if isinstance(m, dict)]
    listed = [str(model["id"]) for model in _listed(answers) if model.get("id")]
    tags = [str(m.get("name")) for m in _list(_at(answers, "/api/tags", "models")) if isinstance(m, dict)]
    served = _text(answers, "/info", "model_id")
    return list(dict.fromkeys([*loaded, *listed, *tags, *([served] if served else [])]))


def _listed(answers: Answers) -> list[dict[str, Any]]:
    return [model for model in _list(_at(answers, "/v1/models", "data")) if isinstance(model, dict)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _at(answers: Answers, path: str, key: str) -> Any:
    answer = answers.get(path)
    return answer.get(key) if isinstance(answer, dict) else None


def _text(answers: Answers, path: str, key: str) -> str | None:
    value = _at(answers, path, key)
    return value if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**9 else None
