"""The servers under test: a module for each kind with only what differs, and the process that runs one.

Each kind's module has KIND, FRESH_CONNECTIONS, READY, METRICS, SLOTS, TOKENIZE, SAMPLING, ASKED, KEEPING, SAMPLED, BUSY,
`body` and `facts`, and with a TOKENIZE also `tokenizing`; `openai` is the plain case, which the others build on.
"""

from types import ModuleType
from typing import Any

from genreport.engines import llamacpp, ollama, openai, sglang, sglang_own, tgi, vllm

KINDS: dict[str, ModuleType] = {kind.KIND: kind for kind in (vllm, llamacpp, sglang, tgi, ollama, openai)}
# kinds with a stream of their own beside OpenAI's
OWN: dict[str, ModuleType] = {"sglang": sglang_own}


def sampled(kind: ModuleType, body: dict[str, Any], sampling: dict[str, Any]) -> dict[str, Any]:
    """A kind's body with a plan's sampling parameters where its server looks for them; `null` takes a field out."""
    if kind.SAMPLING is None:
        return _without_nulls(body | sampling)
    return body | {kind.SAMPLING: _without_nulls(body[kind.SAMPLING] | sampling)}


def chatted(body: dict[str, Any], messages: list[dict[str, str]]) -> dict[str, Any]:
    """The body of a completion as one for the chat endpoint, which no kind in `records.OWN_DIALECT` has."""
    return {"messages": messages} | {name: value for name, value in body.items() if name != "prompt"}


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
