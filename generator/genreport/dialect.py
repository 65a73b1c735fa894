"""One streamed payload of a server as an `Event`: OpenAI's dialect as vLLM, SGLang, llama-server and others speak it,
the own ones of TGI (`token`, `details`), SGLang (`text`, `meta_info`) and Ollama (`response`, `done`).

The servers differ in where they put the usage (an event with `choices: []`, or the finish event), in how they count
tokens (`token_ids` in the event, a running total, a `token` each), in what they say of themselves (`metrics`,
`timings`), and in whether a text is what is new or all there is so far (SGLang). Nothing here
trusts the payload: a key of the wrong type is as good as absent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import orjson

from genreport.records import (
    CONTENT,
    DONE,
    EMPTY,
    ERROR,
    MESSAGE_LIMIT,
    REASONING,
    ROLE,
    TEXT_KINDS,
    USAGE,
    Failure,
    Usage,
)

# what is kept of a message until it was redacted; only then is it cut to its limit, so that no cut tears a secret
MESSAGE_ROOM = 16 * MESSAGE_LIMIT
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TGI, SGLANG, OLLAMA = "/generate_stream", "/generate", "/api/generate"
# the key of a body that tells where it goes; no two dialects share one
_TELLS = {"messages": CHAT, "inputs": TGI, "sampling_params": SGLANG, "raw": OLLAMA}
_REASONING_KEYS = ("reasoning_content", "reasoning")
_CALL_KEYS = ("name", "arguments")
_SERVER_KEYS = ("timings", "metrics")
# llama.cpp's names for what Ollama, which is built on it, says in its last line
_OLLAMA_COUNTS = {"prompt_n": "prompt_eval_count", "predicted_n": "eval_count"}
_OLLAMA_TIMES = {"prompt_ms": "prompt_eval_duration", "predicted_ms": "eval_duration", "load_ms": "load_duration"}
_LARGEST = 2**53  # no count and no duration of a server is larger, and every reader of JSON holds it
_JSON = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity are no JSON, and no number to keep


class Event(NamedTuple):
    """What one payload says.

    `kind` is one letter of `records`; `token_ids` counts the ids the event carries, `cumulative_tokens` is the running
    total of generated tokens it states (both `None` where it states none); `server` holds `timings` or `metrics`. Where
    `may_repeat`, text and ids may be all there are so far: `increments` tells.
    """

    kind: str
    text: str = ""
    token_ids: int | None = None
    cumulative_tokens: int | None = None
    usage: Usage | None = None
    finish: str | None = None
    server: dict[str, Any] | None = None
    failure: Failure | None = None
    may_repeat: bool = False


def endpoint(body: dict[str, Any]) -> str:
    """Where a request body goes."""
    return next((path for key, path in _TELLS.items() if key in body), COMPLETIONS)


def parse(payload: str) -> Event | None:
    """The event, or `None` for a payload that says nothing (`null`, empty, no known key); broken JSON is a failure."""
    if payload.strip() in ("[DONE]", ""):
        return Event(DONE) if payload.strip() else None
    try:
        body = _loaded(payload)
        if body is None:
            return None
        return _event(body) if isinstance(body, dict) else _broken(f"not a JSON object: {payload}")
    except (ValueError, RecursionError) as error:  # what can be read nested this deep cannot always be written again
        return _broken(f"{error}: {payload}")


def _loaded(payload: str) -> Any:
    """What orjson, which is thrice as quick, does not take (halves of surrogate pairs, NaN) the standard library does."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        return _JSON.decode(payload)


def increments(events: Sequence[Event]) -> Sequence[Event]:
    """The events with what each brought, and no more; one that brought neither text nor tokens is empty."""
    if not any(event.may_repeat for event in events):
        return events
    repeats, found = _repeat(events), []
    text, total = "", 0
    for event in events:
        if event.may_repeat:
            new = event.text[len(text) :] if repeats else event.text
            grown = (event.cumulative_tokens or 0) > total
            text, total = event.text, event.cumulative_tokens or total
            event = event._replace(kind=CONTENT if new or grown else EMPTY, text=new, token_ids=None)
        found.append(event)
    return found


def _repeat(events: Sequence[Event]) -> bool:
    """Whether each says all there is: by its ids where it has them, for a text may begin with the one before by chance."""
    told = [event for event in events if event.may_repeat]
    if all(event.token_ids is not None for event in told):
        return sum(event.token_ids or 0 for event in told) > max(event.cumulative_tokens or 0 for event in told)
    return all(later.text.startswith(earlier.text) for earlier, later in pairwise(told))


def token_counts(events: Sequence[Event], completion_tokens: int | None) -> list[int] | None:
    """Tokens of each event, or `None` where the server gives no way to know.

    In this order: the ids an event carries; the growth of the running total, if every event with text states it; one
    token each, if there are exactly as many text events as `completion_tokens`.
    """
    if any(event.token_ids is not None for event in events):
        return [event.token_ids or 0 for event in events]
    if (grown := _growth(events)) is not None:
        return grown
    text = [event.kind in TEXT_KINDS for event in events]
    return [int(has_text) for has_text in text] if sum(text) == completion_tokens else None


def kind_letters(events: Sequence[Event], tokens: Sequence[int] | None) -> str:
    """The kinds of all events; an event without text is a text event if it brought tokens."""
    counts = tokens or [0] * len(events)
    return "".join(
        CONTENT if event.kind == EMPTY and count else event.kind for event, count in zip(events, counts, strict=True)
    )


def clean(text: str, limit: int | None = None) -> str:
    """Text that UTF-8 can hold: halves of surrogate pairs are joined or become U+FFFD; cut to `limit` characters."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")[:limit]


def _growth(events: Sequence[Event]) -> list[int] | None:
    # only events that can hold text take part: a role-only event may already state the total of the text behind it,
    # and llama-server states it on the finish event alone when it was not asked for it on each
    text = [event for event in events if event.kind in TEXT_KINDS]
    if not text or any(event.cumulative_tokens is None for event in text):
        return None
    total, counts = 0, []
    for event in events:
        stated = event.cumulative_tokens if event.kind in TEXT_KINDS + EMPTY else None
        counts.append(0 if stated is None else stated - total)
        total = total if stated is None else stated
    return counts if total and min(counts) >= 0 else None


def _event(body: dict[str, Any]) -> Event | None:
    if body.get("error") or body.get("object") == "error":
        return Event(ERROR, failure=_error(body.get("error") or body))
    usage = _usage(body.get("usage"))
    server = {key: facts for key in _SERVER_KEYS if (facts := _numbers(body.get(key)))} or None
    choices = body.get("choices")
    if isinstance(choices, list) and choices:
        return _choice(_dict(choices[0]), usage, server)
    if isinstance(body.get("token"), dict):
        return _tgi(body["token"], _dict(body.get("details")))
    if isinstance(body.get("meta_info"), dict):
        return _sglang(body, body["meta_info"])
    if "response" in body and "done" in body:
        return _ollama(body)
    return Event(USAGE, usage=usage, server=server) if usage or server else None


def _choice(choice: dict[str, Any], usage: Usage | None, server: dict[str, Any] | None) -> Event:
    delta = _dict(choice.get("delta"))
    content = _text(delta.get("content")) or _text(choice.get("text"))
    reasoning = any(_text(delta.get(key)) for key in _REASONING_KEYS)
    output = content or _text(delta.get("refusal")) or _calls_a_tool(delta)
    ids = choice.get("token_ids")
    count = len(ids) if isinstance(ids, list) else None
    generated = _count(_dict(_dict(server).get("timings")).get("predicted_n"))
    finish = choice.get("finish_reason")
    return Event(
        kind=REASONING if reasoning and not output else CONTENT if output or count else _silent(delta),
        text=content,
        token_ids=count,
        cumulative_tokens=usage.completion_tokens if generated is None and usage else generated,
        usage=usage,
        finish=clean(finish, MESSAGE_ROOM) if isinstance(finish, str) else None,
        server=server,
    )


def _calls_a_tool(delta: dict[str, Any]) -> bool:
    """Whether it carries a piece of a tool call: its name and arguments are generated tokens like those of a text."""
    calls = delta.get("tool_calls")
    told = [_dict(_dict(call).get("function")) for call in (calls if isinstance(calls, list) else [])]
    return any(_text(each.get(key)) for each in (*told, _dict(delta.get("function_call"))) for key in _CALL_KEYS)


def _tgi(token: dict[str, Any], details: dict[str, Any]) -> Event:
    """One token an event, with text or without; the last one has the details."""
    finish = details.get("finish_reason")
    special = token.get("special") is True  # an end of sequence: generated, and counted, but no text
    counts = {"prompt_tokens": "input_length", "completion_tokens": "generated_tokens"}
    return Event(
        kind=CONTENT,
        text="" if special else _text(token.get("text")),
        token_ids=1,
        usage=Usage(**{key: _count(details.get(name)) for key, name in counts.items()}) if details else None,
        finish=clean(finish, MESSAGE_ROOM) if isinstance(finish, str) else None,
    )


def _sglang(body: dict[str, Any], meta: dict[str, Any]) -> Event:
    """The text and its counts; a reason to finish that is an abort is an error the server tells in passing."""
    finish, ids, counts = meta.get("finish_reason"), body.get("output_ids"), _usage(meta)
    reason = _dict(finish).get("type", finish)
    if reason == "abort":
        return Event(ERROR, failure=_error(finish))
    return Event(
        kind=EMPTY,
        text=_text(body.get("text")),
        token_ids=len(ids) if isinstance(ids, list) else None,
        cumulative_tokens=counts.completion_tokens if counts else None,
        usage=counts,
        finish=clean(reason, MESSAGE_ROOM) if isinstance(reason, str) else None,
        may_repeat=True,
    )


def _ollama(body: dict[str, Any]) -> Event:
    """A line with text, or the last one with counts, and durations that become `timings` in milliseconds."""
    text, reason = _text(body["response"]), body.get("done_reason")
    reasoning = bool(_text(body.get("thinking"))) and not text
    if body["done"] is not True:
        return Event(REASONING if reasoning else CONTENT if text else EMPTY, text)
    counts = {key: _count(body.get(name)) for key, name in _OLLAMA_COUNTS.items()}
    spent = {key: ns / 1e6 for key, name in _OLLAMA_TIMES.items() if (ns := _count(body.get(name))) is not None}
    stated = {key: count for key, count in counts.items() if count is not None}
    return Event(
        kind=CONTENT if text else REASONING if reasoning else EMPTY,
        text=text,
        usage=Usage(prompt_tokens=counts["prompt_n"], completion_tokens=counts["predicted_n"]) if stated else None,
        finish=clean(reason, MESSAGE_ROOM) if isinstance(reason, str) else "done",
        server={"timings": stated | spent} if stated or spent else None,
    )


def _silent(delta: dict[str, Any]) -> str:
    return ROLE if "role" in delta else EMPTY


def _usage(stated: Any) -> Usage | None:
    """The counts; `None` where not one is stated, for an empty usage takes nothing back of what was stated before."""
    if not isinstance(stated, dict):
        return None
    cached = _dict(stated.get("prompt_tokens_details")).get("cached_tokens", stated.get("cached_tokens"))
    prompt, completion, cached = map(_count, (stated.get("prompt_tokens"), stated.get("completion_tokens"), cached))
    if prompt is completion is cached is None:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)


def _error(error: Any) -> Failure:
    words = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    return Failure(kind="error-event", message=clean(words, MESSAGE_ROOM))


def _broken(what: str) -> Event:
    return Event(ERROR, failure=Failure(kind="protocol", message=clean(what, MESSAGE_ROOM)))


def _numbers(facts: Any) -> dict[str, float]:
    """The numbers among a server's own facts; only those are ever read."""
    return {
        clean(key): value
        for key, value in _dict(facts).items()
        if type(value) in (int, float) and abs(value) < _LARGEST
    }


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _LARGEST else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
