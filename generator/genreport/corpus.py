"""Prompts from files: a text of which prompts are cut, or chats as lines of JSON in the layouts of ShareGPT and OpenAI."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from genreport.records import GivenFile

MOST_BYTES = 32 << 20
CHATS = ".jsonl"
USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
ROLES = {"human": USER, "gpt": ASSISTANT} | {role: role for role in (USER, ASSISTANT, SYSTEM)}
# the key of a line that holds its messages -> their keys of role and text
LAYOUTS = {"conversations": ("from", "value"), "messages": ("role", "content")}
Message = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Chat:
    """A chat: what stands ahead of it, and its messages from the user's first to the user's last."""

    system: tuple[str, ...]
    said: tuple[tuple[str, str], ...]

    @property
    def asked(self) -> list[str]:
        """What the user says, turn by turn."""
        return [text for role, text in self.said if role == USER]

    @property
    def messages(self) -> list[Message]:
        """The whole of it as one request."""
        return self.opening + [{"role": role, "content": text} for role, text in self.said]

    @property
    def opening(self) -> list[Message]:
        return [{"role": SYSTEM, "content": text} for text in self.system]


def holds_chats(path: str | None) -> bool:
    return path is not None and path.endswith(CHATS)


def words_of(messages: Sequence[Message]) -> int:
    """Words of all messages, at least one: how many tokens they are only a server knows."""
    return max(1, sum(len(message["content"].split()) for message in messages))


def joined(messages: Sequence[Message]) -> str:
    """What was said as one text: answers as they came, so that it begins with what the server has seen."""
    apart = (" " if place and message["role"] != ASSISTANT else "" for place, message in enumerate(messages))
    return "".join(space + message["content"] for space, message in zip(apart, messages, strict=True))


def described(path: str) -> GivenFile:
    """Name, hash and size of a file, by which anyone who has it can send the same. Raises ValueError."""
    return _opened(path)[0]


def read_text(path: str) -> str:
    """The text of a file. Raises ValueError."""
    return _opened(path)[1]


@cache
def _opened(path: str) -> tuple[GivenFile, str]:
    """Both of one reading: the file may be edited or gone before a round says what its prompts were made of."""
    data = _read(path)
    return GivenFile(name=Path(path).name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data)), _text(path, data)


def _text(path: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise ValueError(f"{path}:{line}: is not UTF-8 text; convert the file") from None
    if not text.split():
        raise ValueError(f"{path} holds no word; give a text to cut prompts of")
    return text


@cache
def read_chats(path: str) -> tuple[Chat, ...]:
    """The chats of a JSONL file. Raises ValueError, which names the line and what to do."""
    lines = read_text(path).split("\n")
    return tuple(_chat(f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())


def excerpts(text: Sequence[T]) -> Callable[[str, int], list[T]]:
    """Stretches of so many words or tokens, each from a place that its seed draws; behind the end comes the beginning."""

    def excerpt(seed: str, length: int) -> list[T]:
        start = random.Random(seed).randrange(len(text))
        return [text[(start + place) % len(text)] for place in range(length)]

    return excerpt


def chosen(chats: Sequence[Chat], seed: int, place: int) -> Chat:
    """One of the chats, in an order that the seed draws: none comes again before all have come."""
    return chats[_order(seed, len(chats))[place % len(chats)]]


@lru_cache(maxsize=4)
def _order(seed: int, count: int) -> list[int]:
    return random.Random(seed).sample(range(count), count)


def _read(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} can not be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path} is larger than {MOST_BYTES >> 20} MiB; give a part of it")
    return data


def _chat(where: str, line: str) -> Chat:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: is no JSON; give one object a line (`jq -c '.[]'` makes lines of a list)") from None
    found = next(((row[key], *keys) for key, keys in LAYOUTS.items() if isinstance(row, dict) and key in row), None)
    if found is None or not isinstance(found[0], list):
        raise ValueError(f"{where}: has no list `conversations` or `messages`; give it one, or leave the line out")
    said = [pair for message in found[0] for pair in _message(where, message, *found[1:])]
    asked = [place for place, (role, text) in enumerate(said) if role == USER and text.strip()]
    if not asked:
        raise ValueError(f"{where}: nobody asks anything; give it a message of the user, or leave the line out")
    system = tuple(text for role, text in said if role == SYSTEM)
    return Chat(system, tuple(pair for pair in said[asked[0] : asked[-1] + 1] if pair[0] != SYSTEM))


def _message(where: str, message: Any, who: str, what: str) -> Iterator[tuple[str, str]]:
    if not isinstance(message, dict):
        raise ValueError(f"{where}: a message is no object; give it `{who}` and `{what}`")
    role, text = message.get(who), message.get(what)
    if not isinstance(role, str) or role not in ROLES:
        known = ", ".join(key for key in ROLES if (who == "from") == (key in ("human", "gpt")) or key == SYSTEM)
        raise ValueError(f"{where}: `{who}` must be one of {known}, not {str(role)[:60]!r}")
    if not isinstance(text, str):
        raise ValueError(f"{where}: `{what}` must be text; leave out lines with pictures or calls of tools")
    yield ROLES[role], text.encode("utf-8", "replace").decode()
