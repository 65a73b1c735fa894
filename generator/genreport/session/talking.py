"""Conversations: each turn is made when the answer before it is known, of all that was said until then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from genreport.client import Call
from genreport.corpus import ASSISTANT, USER, Message, chosen, words_of
from genreport.load import Talk
from genreport.plan import LevelPlan, asked_input
from genreport.records import Conversations
from genreport.session.prompts import Prompts

# what was said -> the body of the next request
Body = Callable[[list[Message]], dict[str, Any]]


@dataclass
class Talks:
    """The conversations of one repeat in order, the same for the same seed; counts those begun and their turns."""

    level: LevelPlan
    seed: int
    prompts: Prompts
    body: Body
    begun: int = 0
    planned: int = 0

    @property
    def plan(self) -> Conversations:
        assert self.level.talk is not None
        return self.level.talk

    def __iter__(self) -> Iterator[Talk]:
        for number in count() if self.level.requests is None else range(self.level.requests // self.plan.turns):
            yield self._talk(number)

    def warmup(self, requests: int) -> list[Call]:
        """First turns of other conversations."""
        return [self._call(k, self._first(-1 - k, f"warmup/{k}"), 0, warmup=True) for k in range(requests)]

    def _talk(self, number: int) -> Talk:
        """A generator: it is begun when it is first asked for a turn."""
        asked = self._asked(number, str(number))
        self.begun, self.planned = self.begun + 1, self.planned + len(asked)
        said = self._opening(number)
        for turn, text in enumerate(asked):
            said = [*said, {"role": USER, "content": text}]
            answer = yield self._call(number * self.plan.turns + turn, said, turn, conversation=number, turn=turn)
            said = [*said, {"role": ASSISTANT, "content": answer or ""}]

    def _first(self, number: int, name: str) -> list[Message]:
        return [*self._opening(number), {"role": USER, "content": self._asked(number, name)[0]}]

    def _opening(self, number: int) -> list[Message]:
        return chosen(self.prompts.chats, self.seed, number).opening if self.prompts.chats else []

    def _asked(self, number: int, name: str) -> list[str]:
        """What the user says, turn by turn: of a chat from the file, or drawn, behind the prefix that all share."""
        if self.prompts.chats:
            return chosen(self.prompts.chats, self.seed, number).asked[: self.plan.turns]
        own = [
            self.prompts.words(f"{self.seed}/{name}/{turn}", self.plan.input or 0) for turn in range(self.plan.turns)
        ]
        if self.plan.prefix:
            own[0] = f"{self.prompts.words(f'{self.seed}/prefix', self.plan.prefix)} {own[0]}"
        return own

    def _call(self, index: int, said: list[Message], place: int, **facts: Any) -> Call:
        words = words_of([m for m in said if m["role"] != ASSISTANT]) + place * self.plan.output
        lengths = {
            "asked_input": words if self.prompts.chats else asked_input(self.plan, place),
            "asked_output": self.plan.output,
        }
        return Call(index=index, seed=self.seed, body=self.body(said), **lengths, **facts)
