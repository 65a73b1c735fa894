"""Service levels of the command line: another limit, answered from what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from genreport.errors import OptionError, printable
from genreport.figures.book import Book
from genreport.figures.latency import STATISTICS
from genreport.provenance import Given, Quantity

OPTION = "--slo"
EXAMPLE = f"write for example {OPTION} ttft_p99=800ms"
LATENCIES = ("ttft", "tpot", "itl", "e2el")
_LIMIT = re.compile(r"(?P<figure>\w+?)_(?P<percentile>p[\d.]+|[a-z]+)=(?P<value>\d+(?:\.\d+)?)(?P<unit>ms|s)", re.ASCII)


@dataclass(frozen=True)
class Limit:
    """A limit as somebody typed it: `text` is its only source, `value` stands in it, in `unit` (`ms` or `s`)."""

    text: str
    figure: str
    percentile: str
    value: str
    unit: str

    @property
    def name(self) -> str:
        """What figures about it are called: letters, digits and signs that an id may hold."""
        return f"given-{self.figure}-{self.percentile}-{self.value}{self.unit}".replace(".", "_")


def read(texts: Iterable[str]) -> tuple[Limit, ...]:
    """The limits of a command line, in its order and each once; OptionError names the first that is none."""
    return tuple({limit.name: limit for limit in map(_limit, texts)}.values())


def _limit(text: str) -> Limit:
    text = "".join(text.split())
    found = _LIMIT.fullmatch(text)
    if found is None:
        raise _wrong(text, "not a percentile of a latency, a number, and ms or s")
    if found["figure"] not in LATENCIES:
        raise _wrong(text, f"no latency {found['figure']!r}; known are {', '.join(LATENCIES)}")
    known = [statistic for statistic in STATISTICS[found["figure"]][1] if statistic != "mean"]
    if found["percentile"] not in known:
        raise _wrong(text, f"no {found['percentile']} of {found['figure']} is computed; known are {', '.join(known)}")
    if not float(found["value"]):
        raise _wrong(text, "a limit of nothing is met by nobody")
    return Limit(text, **found.groupdict())


def _wrong(text: str, what: str) -> OptionError:
    return OptionError(what, where=f"{OPTION} {printable(text[:60])}", cure=EXAMPLE)


def enter(book: Book, id: str, limit: Limit) -> Quantity:
    """The limit in seconds, from its text."""
    milli = limit.unit == "ms"
    value = float(limit.value) / 1000 if milli else float(limit.value)
    formula = "number(given) / 1000" if milli else "number(given)"
    source = Given(OPTION, limit.text, rf"=([\d.]+){limit.unit}$")
    return book.enter(id, value, "s", formula, source)
