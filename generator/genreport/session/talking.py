"""Conversations: each turn is made when the answer before it is known, of all that was said until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from genreport.client import Call
from genreport.load import Talk
from genreport.plan import LevelPlan, asked_input
from genreport.records import Conversations

# what was said, by the user and the server in turn -> the body of the next request
Body = Callable[[list[str]], dict[str, Any]]
# a seed and a length in tokens -> text
Words = Callable[[str, int], str]
ROLES = "user", "assistant"


@dataclass
class Talks:
    """The conversations of one repeat in order, the same for the same seed; `planned` counts the turns of those begun."""

    level: LevelPlan
    seed: int
    words: Words
    body: Body
    begun: int = 0

    @property
    def plan(self) -> Conversations:
        assert self.level.talk is not None
        return self.level.talk

    @property
    def planned(self) -> int:
        return self.begun * self.plan.turns

    def __iter__(self) -> Iterator[Talk]:
        for number in count() if self.level.requests is None else range(self.level.requests // self.plan.turns):
            yield self._talk(number)

    def _talk(self, number: int) -> Talk:
        self.begun += 1
        said: list[str] = []
        for turn in range(self.plan.turns):
            said = [*said, self._asks(str(number), turn)]
            answer = yield self._call(number * self.plan.turns + turn, said, conversation=number, turn=turn)
            said = [*said, answer or ""]

    def warmup(self, requests: int) -> list[Call]:
        """First turns of other conversations."""
        return [self._call(k, [self._asks(f"warmup/{k}", 0)], warmup=True) for k in range(requests)]

    def _asks(self, name: str, turn: int) -> str:
        """What the user says in a turn; the first one begins with the prefix that all conversations share."""
        own = self.words(f"{self.seed}/{name}/{turn}", self.plan.input)
        shared = self.plan.prefix if turn == 0 else 0
        return f"{self.words(f'{self.seed}/prefix', shared)} {own}" if shared else own

    def _call(self, index: int, said: list[str], **facts: Any) -> Call:
        lengths = {"asked_input": asked_input(self.plan, len(said) // 2), "asked_output": self.plan.output}
        return Call(index=index, seed=self.seed, body=self.body(said), **lengths, **facts)


def messages(said: list[str]) -> list[dict[str, str]]:
    """What was said as the chat endpoint takes it."""
    return [{"role": ROLES[place % 2], "content": text} for place, text in enumerate(said)]


def joined(said: list[str]) -> str:
    """What was said as one text: answers as they came, so that it begins with what the server has seen."""
    return "".join(f" {text}" if place and place % 2 == 0 else text for place, text in enumerate(said))
