"""Where things stand below a round's folder in the site; whoever links to evidence asks here."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

from genreport.errors import OptionError
from genreport.rounds import HEAD

# a page of a listing ends before its lines, with the markup around each, pass this many bytes; a longer line stands alone
PAGE_BYTES, LINE_BYTES = 320_000, 110
RAW, SOURCES, FIGURES, MANIFEST, CARDS = "raw", "sources", "figures", "provenance.json", "figures.js"
# marks the root of a built site
STAMP = ".genreport-stamp.json"

# what a browser shows or downloads as text; anything else in a round is published with `.txt` behind its name, so that
# a page or a script that lies in a round never runs in the site
_TEXTUAL = {"json", "jsonl", "yaml", "yml", "csv", "log", "prom", "txt", "gz"}


# first words of ids that go on with a round's name, and only then with what other ids begin with
BETWEEN_ROUNDS = ("against", "other")
# figures that count on within one scope, and how many numbers make a page: tensors of a model, levels that engines share
_NUMBERED = (
    (re.compile(r"engine\.[^.]+\.tensor\.(\d+)(?:\.\w+)?"), 100),
    (re.compile(r"test\.[^.]+\.at\.[^.]*?(\d+)(?:\.\w+)?"), 100),
    (re.compile(r"pair(?:\.[^.]+){3}\.(?:.*_)?[^._]*?(\d+)(?:\.(?:low|high))?"), 20),
)
_REPEAT = re.compile(r"r\d+")


def free(path: str | Path) -> Path:
    """The place of a file to write, told before anything is computed; OptionError inside a round, a site or no folder."""
    place = Path(path)
    for folder in place.absolute().resolve().parents:
        if any((folder / mark).exists() for mark in (HEAD, STAMP)):
            what = "a round" if (folder / HEAD).exists() else "a built site"
            raise OptionError(f"is inside {what}, which stays as it is", where=str(path), cure="name a file elsewhere")
    if not place.parent.is_dir():
        raise OptionError(f"there is no folder {place.parent}", where=str(path), cure="make it, or name another file")
    if not os.access(place if place.exists() else place.parent, os.W_OK):
        raise OptionError("cannot be written", where=str(path), cure="name a file in a folder that you may write")
    return place


def derivation_group(id: str) -> str:
    """The page a figure's derivation stands on: one a level, repeat, engine, limit or pair (`concurrency.vllm-bf16.c4`)."""
    figure = id.partition("[")[0]
    parts = figure.split(".")
    if parts[0] in BETWEEN_ROUNDS and len(parts) > 2:
        return f"{parts[0]}.{parts[1]}.{derivation_group('.'.join(parts[2:]))}"
    narrow = parts[0] == "pair" or parts[2:3] == ["slo"] or (len(parts) > 4 and _REPEAT.fullmatch(parts[3]))
    group = ".".join(parts[:-1][: 4 if narrow else 3] or parts)
    for pattern, many in _NUMBERED:
        if (found := pattern.fullmatch(figure)) and (first := int(found[1]) // many * many):
            return f"{group}.{first}"
    return group


def derivation_href(id: str) -> str:
    """A figure's derivation (`figures/concurrency.vllm-bf16.c4.html#…`); a point of a curve leads to the curve."""
    figure = id.partition("[")[0]
    return f"{FIGURES}/{quote(derivation_group(figure))}.html#{quote(figure)}"


def page_starts(data: bytes) -> tuple[int, ...]:
    """The first line on each page of a file's listing, from its bytes, unpacked."""
    starts, room = [1], PAGE_BYTES
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        size = len(line) + LINE_BYTES
        if size > room and number > starts[-1]:
            starts.append(number)
            room = PAGE_BYTES
        room -= size
    return tuple(starts)


def foreign_href(round: str, id: str) -> str:
    """From a round's folder: the derivation of a figure of another round in the same site."""
    return f"../{quote(round)}/{derivation_href(id)}"


def listing_file(file: str, page: int = 1) -> str:
    """The listing's file below the round; what the first page does not hold is on `.2.html` and so on."""
    return f"{SOURCES}/{visible(file)}{'' if page == 1 else f'.{page}'}.html"


def listing_href(file: str, line: int | None = None, starts: Sequence[int] = (1,)) -> str:
    """A file's listing, at a line if one is given; `starts` are the file's `page_starts`."""
    page = 1 if line is None else bisect_right(starts, line)
    return quote(listing_file(file, page)) + ("" if line is None else f"#L{line}")


class Listings:
    """Where the lines of a round's files are listed; `read` gives a file's bytes, unpacked."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self.starts = cache(lambda file: page_starts(read(file)))

    def href(self, file: str, line: int | None) -> str:
        """The page of a file's listing that holds a line, at that line."""
        return listing_href(file, line, self.starts(file) if line else ())


def raw_file(file: str) -> str:
    """The file as stored, byte for byte."""
    textual = file.rsplit("/", 1)[-1].rpartition(".")[2].lower() in _TEXTUAL
    return f"{RAW}/{visible(file)}{'' if textual else '.txt'}"


def raw_href(file: str) -> str:
    return quote(raw_file(file))


def mailed_file(round_name: str) -> str:
    """The guide as one file to mail, under a name that tells of its round wherever it is kept."""
    return f"guide/{round_name}-guide.html"


def visible(file: str) -> str:
    """A path no part of which starts with a dot: MkDocs publishes no hidden file."""
    return "/".join(f"_{part}" if part.startswith(".") else part for part in file.split("/"))


def up(path: str) -> str:
    """From a file back to the folder its path is relative to."""
    return "../" * path.count("/")
