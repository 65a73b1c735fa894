"""Where the prompts of a test come from: drawn words or token ids, or a file."""

from __future__ import annotations

import json
import random
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from genreport.corpus import Chat, excerpts, read_chats, read_text
from genreport.engines import KINDS
from genreport.engines.asking import asked
from genreport.errors import EngineError
from genreport.plan import Engine, PlannedTest

# a seed and a length in tokens -> a piece of a prompt
Ids = Callable[[str, int], list[int]]
Words = Callable[[str, int], str]
# for servers that take no token ids: words that are one token in nearly every vocabulary
WORDS = (
    "time", "people", "year", "way", "day", "man", "thing", "world", "life", "hand", "part", "child", "eye", "place",
)  # fmt: skip
# characters that a server's tokenizer is given at once
PART = 1 << 16
TOKENIZE_S = 60.0


@dataclass(frozen=True)
class Prompts:
    """What the requests of a test are made of: whole chats, or else pieces, as token ids where the engine is sent those."""

    words: Words
    ids: Ids | None = None
    chats: tuple[Chat, ...] = ()

    def piece(self, seed: str, length: int) -> list[int] | str:
        return (self.ids or self.words)(seed, length)


async def prompts_of(test: PlannedTest, engine: Engine, vocabulary: int | None, http: httpx.AsyncClient) -> Prompts:
    """Those of one test, the same for the same seed: exact in tokens as ids, else as many words. Raises EngineError."""
    in_ids = engine.prompt_form == "ids" and not test.chat and test.kind != "conversation"
    if test.chats:
        return Prompts(_drawn_words, chats=read_chats(test.prompts or ""))
    if test.prompts is None:
        return Prompts(_drawn_words, _drawn_ids(engine, vocabulary) if in_ids else None)
    text = read_text(test.prompts)
    of_file = excerpts(text.split())
    ids = excerpts(await _tokenized(text, engine, http)) if in_ids else None
    return Prompts(lambda seed, length: " ".join(of_file(seed, length)), ids)


def _drawn_words(seed: str, length: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def _drawn_ids(engine: Engine, vocabulary: int | None) -> Ids:
    """The same on every engine with the same vocabulary."""
    if vocabulary is None:
        raise EngineError("how many token ids its vocabulary has is unknown", cure="say `vocabulary:` in the plan")
    ids = range(engine.first_token, vocabulary)
    if not ids:
        raise EngineError(f"no token ids from {ids.start} to {ids.stop}", cure="lower `first_token` in the plan")
    return lambda seed, length: random.Random(seed).choices(ids, k=length)


async def _tokenized(text: str, engine: Engine, http: httpx.AsyncClient) -> array[int]:
    """The ids of a text by the engine's own tokenizer."""
    kind = KINDS[engine.kind]
    if kind.TOKENIZE is None:
        raise EngineError(
            f"{engine.kind} is not known to cut a text into tokens", cure="say `prompt: text` in the plan"
        )
    found = array("I")
    for part in _parts(text):
        ids = _ids_in(await asked(http, kind.TOKENIZE, TOKENIZE_S, post=kind.tokenizing(engine.model, part)))
        if not ids:
            raise EngineError(f"its {kind.TOKENIZE} gives no token ids", cure="say `prompt: text` in the plan")
        found.extend(ids)
    return found


def _parts(text: str) -> Iterator[str]:
    """The text in parts that end with a line, as far as lines are not longer than a part."""
    part = ""
    for line in text.splitlines(keepends=True):
        if part and len(part) + len(line) > PART:
            yield part
            part = ""
        part += line
    yield part


def _ids_in(answer: bytes | None) -> list[int]:
    try:
        found: Any = json.loads(answer or b"null")
    except (ValueError, RecursionError):
        return []
    ids = found.get("tokens") if isinstance(found, dict) else None
    return ids if isinstance(ids, list) and all(type(token) is int and 0 <= token < 1 << 32 for token in ids) else []
