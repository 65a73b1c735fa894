"""Whether a round is what it claims to be: hashes, schemas, and records that stand where their ids belong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from genreport.errors import RoundError, Tampered, printable
from genreport.records import Record, SamplesHead, SlotsHead
from genreport.rounds.files import GPU, SAMPLES, SEAL, SLOTS, all_files
from genreport.rounds.reading import Round


def check(path: str | Path) -> Iterator[str]:
    """Findings about a round, one line each; none means every hash and every schema holds."""
    yield from dict.fromkeys(map(printable, _findings(Round(path))))


def verified(path: str | Path) -> Round:
    """The round, after every hash held and every record stood in its place; the first that does not is named."""
    found = Round(path)
    for finding in chain(_seal(found), _hashes(found), _places(found)):
        raise Tampered(printable(finding), cure="restore the file or record the round again")
    return found


def _findings(found: Round) -> Iterator[str]:
    if not found.sealed:
        yield f"{found.path}: not sealed: the round is unfinished; `genreport run … --resume` goes on"
    for part in ("plan", "machine", "models", "launches", "levels"):
        yield from _unreadable(lambda part=part: getattr(found, part))
    for findings in (_seal, _hashes, _places, _contents):
        yield from _told(findings(found))


def _told(findings: Iterator[str]) -> Iterator[str]:
    """The findings; what can not be read ends them and is one itself."""
    try:
        yield from findings
    except RoundError as error:
        yield str(error)


def _unreadable(read: Callable[[], object]) -> Iterator[str]:
    try:
        read()
    except RoundError as error:
        yield str(error)


def _seal(found: Round) -> Iterator[str]:
    """Files that are not as the round's seal has them."""
    if not found.sealed:
        return
    known, present = found.seal.files, all_files(found.path) - {SEAL}
    yield from (f"{found.where(file)}: missing, though the seal lists it" for file in sorted(known.keys() - present))
    yield from (f"{found.where(file)}: not in the seal" for file in sorted(present - known.keys()))
    for file in sorted(known.keys() & present):
        if found.digest(file) != known[file]:
            yield f"{found.where(file)}: changed since it was sealed"


def _hashes(found: Round) -> Iterator[str]:
    """Files that are not as their level's facts have them."""
    for level in found.levels:
        for name, fact in level.facts.files.items():
            file = f"{level.path}/{name}"
            if not (found.path / file).is_file():
                yield f"{found.where(file)}: missing, though the level's facts list it"
            elif found.digest(file) != fact:
                yield f"{found.where(file)}: changed since the level was sealed"


def _places(found: Round) -> Iterator[str]:
    """Records whose ids are not those of their folders."""
    for id, launch in found.launches.items():
        if id.rpartition("/")[0] != launch.name:
            yield f"{found.where(found.launch_file(id))}: is of {launch.name} and does not belong here"
    for level in found.levels:
        facts, started = level.facts, found.launches.get(level.facts.launch)
        if level.path != f"levels/{facts.key}":
            yield f"{found.where(level.facts_file)}: is of {facts.key} and does not belong here"
        if started is None or started.engine != facts.engine:
            yield f"{found.where(level.facts_file)}: the round has no launch {facts.launch} of {facts.engine}"


def _contents(found: Round) -> Iterator[str]:
    """Files that do not hold what their names say."""
    for file in found.evidence():
        if file.endswith(".gz"):
            yield from _unreadable(lambda file=file: found.text(file))
    for level in found.levels:
        yield from _unreadable(lambda level=level: found.requests(level))
        for name, read in READERS.items():
            if file := level.file(name):
                yield from _unreadable(lambda read=read, file=file: read(found, file))


def _samples(found: Round, file: str) -> None:
    lines = _json_lines(found, file)
    width = len(_head(lines, SamplesHead, found.where(file)).series)
    for where, row in lines:
        if not (isinstance(row, list) and len(row) == 1 + width and _whole(row[0]) and all(map(_sample, row[1:]))):
            raise RoundError(f"not a sample: a time and {width} values", where=where)


def _slots(found: Round, file: str) -> None:
    lines = _json_lines(found, file)
    _head(lines, SlotsHead, found.where(file))
    for where, row in lines:
        if not (isinstance(row, list) and len(row) == 2 and _whole(row[0]) and _busy(row[1])):
            raise RoundError("not a sample: a time and four whole numbers of each busy slot", where=where)


def _gpu(found: Round, file: str) -> None:
    """Only the stamps are ours: the rest is what the driver printed, its complaints included."""
    head, *lines = found.text(file).split("\n")
    if not head.startswith("t_us,"):
        raise RoundError("the first column is not t_us", where=f"{found.where(file)}:1")
    for number, line in enumerate(lines, 2):
        if line and not line.partition(",")[0].isdecimal():
            raise RoundError("does not begin with a time", where=f"{found.where(file)}:{number}")


READERS: dict[str, Callable[[Round, str], None]] = {SAMPLES: _samples, SLOTS: _slots, GPU: _gpu}


def _json_lines(found: Round, file: str) -> Iterator[tuple[str, Any]]:
    """Each line's place and value."""
    for number, line in enumerate(found.text(file).split("\n"), 1):
        if line:
            where = f"{found.where(file)}:{number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                raise RoundError("not JSON", where=where) from None
            yield where, value


def _head(lines: Iterator[tuple[str, Any]], kind: type[Record], where: str) -> Any:
    _, value = next(lines, (where, None))
    try:
        return kind.model_validate(value)
    except ValidationError:
        raise RoundError(f"the first line is no {kind.__name__}", where=where) from None


def _whole(value: Any) -> bool:
    return type(value) is int


def _sample(value: Any) -> bool:
    return value is None or type(value) in (int, float)


def _busy(slots: Any) -> bool:
    return isinstance(slots, list) and all(
        isinstance(slot, list) and len(slot) == 4 and all(map(_whole, slot)) for slot in slots
    )
