"""The round on disk: the only module that knows the name of a file in it, and where both wings of the house meet.

    round.json  plan.yaml  machine.json  seal.json
    models/<sha>.json
    launches/<engine>[+<test>]/<n>/{launch.json, start.log.gz}
    levels/<test>/<engine>/<level>/r<k>/{requests.jsonl, before.prom.gz, after.prom.gz, samples.jsonl, slots.jsonl,
                                         engine.log.gz, gpu.csv, facts.json}

A level's `facts.json` is written last and holds the hashes of its files: a level without it broke off and is left out.
`seal.json` is written last of all: a round without it is a preview.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from genreport.errors import NoRound, RoundError, Tampered, WrongFormat
from genreport.records import (
    ROUND_FORMAT,
    FileFact,
    LaunchFacts,
    LevelFacts,
    MachineFacts,
    ModelFacts,
    Record,
    Request,
    RoundHead,
    Seal,
)

HEAD, PLAN, MACHINE, SEAL = "round.json", "plan.yaml", "machine.json", "seal.json"
REQUESTS, BEFORE, AFTER, SAMPLES, SLOTS = (
    "requests.jsonl", "before.prom.gz", "after.prom.gz", "samples.jsonl", "slots.jsonl",
)  # fmt: skip
ENGINE_LOG, GPU, FACTS, LAUNCH, START_LOG = "engine.log.gz", "gpu.csv", "facts.json", "launch.json", "start.log.gz"

R = TypeVar("R", bound=Record)


def digest(data: bytes) -> FileFact:
    """Hash and size of a file's bytes as stored."""
    return FileFact(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def packed(text: str | bytes) -> bytes:
    """Gzip without a time stamp, so that equal text gives equal bytes."""
    return gzip.compress(text if isinstance(text, bytes) else text.encode(), compresslevel=6, mtime=0)


@dataclass(frozen=True)
class Level:
    """One sealed repeat of a level: its facts and the place of its files."""

    root: Path
    path: str  # relative to the round, e.g. levels/concurrency/vllm-bf16/c4/r1
    facts: LevelFacts

    def file(self, name: str) -> str | None:
        """Path of one of its files relative to the round, or `None` where the level has none such."""
        return f"{self.path}/{name}" if name in self.facts.files else None

    @property
    def requests_file(self) -> str:
        return f"{self.path}/{REQUESTS}"

    @property
    def facts_file(self) -> str:
        return f"{self.path}/{FACTS}"


class Round:
    """A round opened for reading; files are read when first asked for."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        head = self.path / HEAD
        if not head.is_file():
            what = "no such round" if not self.path.exists() else f"not a round: it has no {HEAD}"
            raise NoRound(what, where=str(path), cure="name the folder that `genreport run --out` wrote")
        found = _json(head, str(head)).get("format")
        if found != ROUND_FORMAT:
            raise WrongFormat(f"format {found!r}", where=str(head), cure=f"this version reads {ROUND_FORMAT}")
        self.head = self._record(HEAD, RoundHead)
        self.name = self.path.resolve().name

    @property
    def sealed(self) -> bool:
        return (self.path / SEAL).is_file()

    @cached_property
    def seal(self) -> Seal:
        return self._record(SEAL, Seal)

    @cached_property
    def plan(self) -> dict[str, Any]:
        return yaml.safe_load(self.text(PLAN)) or {}

    @cached_property
    def machine(self) -> MachineFacts:
        return self._record(MACHINE, MachineFacts)

    @cached_property
    def launches(self) -> dict[str, LaunchFacts]:
        """Launch id (`engine[+test]/n`) -> facts, in the order they were started."""
        found = {
            file.parent.relative_to(self.path / "launches").as_posix(): self._record(self._relative(file), LaunchFacts)
            for file in (self.path / "launches").glob(f"*/*/{LAUNCH}")
        }
        return dict(sorted(found.items(), key=lambda item: item[1].started_unix_us))

    @cached_property
    def models(self) -> dict[str, ModelFacts]:
        """Path relative to the round -> the model's tensors."""
        files = sorted((self.path / "models").glob("*.json"))
        return {self._relative(file): self._record(self._relative(file), ModelFacts) for file in files}

    @cached_property
    def levels(self) -> list[Level]:
        """Every sealed repeat, in the plan's order."""
        found = [
            Level(self.path, self._relative(file.parent), self._record(self._relative(file), LevelFacts))
            for file in (self.path / "levels").glob(f"*/*/*/r*/{FACTS}")
        ]
        order = {key: place for place, key in enumerate(self.head.planned)}
        return sorted(found, key=lambda level: (order.get(level.path.removeprefix("levels/"), len(order)), level.path))

    @cached_property
    def unsealed(self) -> list[str]:
        """Planned repeats that broke off or were never begun."""
        done = {level.path.removeprefix("levels/") for level in self.levels}
        return [key for key in self.head.planned if key not in done]

    def launch_file(self, launch: str) -> str:
        return f"launches/{launch}/{LAUNCH}"

    def start_log_file(self, launch: str) -> str | None:
        path = f"launches/{launch}/{START_LOG}"
        return path if (self.path / path).is_file() else None

    def requests(self, level: Level) -> list[Request]:
        """Every record of a repeat, warm-up included, in file order: record k is line k + 1."""
        lines = self.text(level.requests_file).split("\n")  # not splitlines: U+2028 may stand in an answer
        try:
            return [Request.model_validate_json(line) for line in lines if line]
        except ValidationError as error:
            raise RoundError(_first(error), where=level.requests_file, cure="record the level again") from None

    def evidence(self) -> list[str]:
        """Every file of the round that may be cited: sealed levels only, seal included, sorted."""
        whole = {level.path for level in self.levels}
        files = (self._relative(file) for file in self.path.rglob("*") if file.is_file())
        return sorted(file for file in files if not file.startswith("levels/") or file.rsplit("/", 1)[0] in whole)

    def bytes(self, file: str) -> bytes:
        try:
            return (self.path / file).read_bytes()
        except OSError as error:
            raise RoundError(error.strerror or "unreadable", where=f"{self.path}/{file}") from None

    def text(self, file: str) -> str:
        """A file's text, unzipped; bytes that are no UTF-8 are shown as U+FFFD."""
        data = self.bytes(file)
        return (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8", "replace")

    def _relative(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def _record(self, file: str, kind: type[R]) -> R:
        try:
            return kind.model_validate_json(self.bytes(file))
        except ValidationError as error:
            raise RoundError(_first(error), where=f"{self.path}/{file}", cure="record the round again") from None


def check(path: str | Path) -> Iterator[str]:
    """Findings about a round, one line each; none means every hash and every schema holds."""
    found = Round(path)
    if not found.sealed:
        yield f"{found.path}: not sealed: the round is unfinished; `genreport run … --resume` goes on"
    yield from _check_seal(found)
    yield from _check_schemas(found)


def _check_seal(found: Round) -> Iterator[str]:
    known = found.seal.files if found.sealed else {}
    present = (
        {file for file in found.evidence() if file != SEAL} if not found.sealed else _all_files(found.path) - {SEAL}
    )
    for file in sorted(known.keys() - present):
        yield f"{found.path}/{file}: missing, though the seal lists it"
    if found.sealed:
        for file in sorted(present - known.keys()):
            yield f"{found.path}/{file}: not in the seal"
    for file in sorted(known.keys() & present):
        if digest(found.bytes(file)) != known[file]:
            yield f"{found.path}/{file}: changed since it was sealed"


def _check_schemas(found: Round) -> Iterator[str]:
    try:
        _ = found.machine, found.launches, found.models, found.plan
        levels = found.levels
    except RoundError as error:
        yield str(error)
        return
    for level in levels:
        for name, fact in level.facts.files.items():
            file = f"{level.path}/{name}"
            if not (found.path / file).is_file():
                yield f"{found.path}/{file}: missing, though the level's facts list it"
            elif digest(found.bytes(file)) != fact:
                yield f"{found.path}/{file}: changed since the level was sealed"
        try:
            found.requests(level)
        except RoundError as error:
            yield f"{found.path}/{error}"


def verified(path: str | Path) -> Round:
    """The round, after every hash held; the first broken one is named."""
    found = Round(path)
    for finding in _check_seal(found):
        raise Tampered(finding, cure="restore the file or record the round again")
    for level in found.levels:
        for name, fact in level.facts.files.items():
            if not (found.path / level.path / name).is_file() or digest(found.bytes(f"{level.path}/{name}")) != fact:
                raise Tampered("changed since the level was sealed", where=f"{found.path}/{level.path}/{name}",
                               cure="restore the file or record the level again")  # fmt: skip
    return found


class RoundWriter:
    """A round being recorded. Everything is flushed as it comes; seals are written last, by rename."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def exists(self) -> bool:
        return (self.path / HEAD).is_file()

    def head(self, head: RoundHead, plan: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._write(PLAN, plan.encode())
        self._write(HEAD, _dump(head))

    def machine(self, machine: MachineFacts) -> None:
        self._write(MACHINE, _dump(machine))

    def model(self, model: ModelFacts) -> str:
        """Stores a model's tensor list under its files' hash; returns the path relative to the round."""
        key = hashlib.sha256("".join(file.sha256 for file in model.files).encode()).hexdigest()[:12]
        file = f"models/{key}.json"
        self._write(file, _dump(model))
        return file

    def next_launch(self, name: str) -> str:
        """An unused launch id for an engine (`engine` or `engine+test`)."""
        taken = [int(p.name) for p in (self.path / "launches" / name).glob("*") if p.name.isdigit()]
        return f"{name}/{max(taken, default=0) + 1}"

    def launch(self, launch: str, facts: LaunchFacts, start_log: str | None) -> None:
        if start_log is not None:
            self._write(f"launches/{launch}/{START_LOG}", packed(start_log))
        self._write(f"launches/{launch}/{LAUNCH}", _dump(facts))

    def sealed_levels(self) -> set[str]:
        """Keys (`test/engine/level/rN`) of the repeats that are done and need no second measurement."""
        return {
            p.parent.relative_to(self.path / "levels").as_posix() for p in self.path.glob(f"levels/*/*/*/*/{FACTS}")
        }

    def level(self, key: str) -> LevelWriter:
        """Opens `test/engine/level/rN`, dropping what an earlier attempt left unsealed there."""
        return LevelWriter(self.path / "levels" / key)

    def seal(self, finished_unix_us: int) -> Seal:
        """Drops unsealed levels and seals what is left."""
        done = self.sealed_levels()
        for folder in self.path.glob("levels/*/*/*/r*"):
            if folder.relative_to(self.path / "levels").as_posix() not in done:
                _clear(folder)
        files = {name: digest((self.path / name).read_bytes()) for name in sorted(_all_files(self.path) - {SEAL})}
        seal = Seal(finished_unix_us=finished_unix_us, files=files)
        self._write(SEAL, _dump(seal))
        return seal

    def unseal(self) -> None:
        (self.path / SEAL).unlink(missing_ok=True)

    def _write(self, file: str, data: bytes) -> None:
        _write_whole(self.path / file, data)


class LevelWriter:
    """One repeat being recorded: requests are appended line by line, other files written whole, facts last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        _clear(path)
        path.mkdir(parents=True, exist_ok=True)
        self._requests = (path / REQUESTS).open("w", encoding="utf-8")

    def request(self, request: Request) -> None:
        self._requests.write(request.model_dump_json() + "\n")
        self._requests.flush()

    def text(self, name: str, text: str) -> None:
        """A whole file; a name that ends in .gz is packed."""
        _write_whole(self.path / name, packed(text) if name.endswith(".gz") else text.encode())

    def seal(self, facts: dict[str, Any]) -> LevelFacts:
        """Closes the level: hashes its files into `facts` (everything of LevelFacts but `files`) and writes them."""
        os.fsync(self._requests.fileno())
        self._requests.close()
        files = {p.name: digest(p.read_bytes()) for p in sorted(self.path.iterdir()) if p.name != FACTS}
        sealed = LevelFacts(**facts, files=files)
        _write_whole(self.path / FACTS, _dump(sealed))
        return sealed

    def abandon(self) -> None:
        self._requests.close()


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


_NUMBERS = re.compile(r"\[\s+([-\d.,\se+]+?)\s+\]")


def _dump(record: Record) -> bytes:
    """Indented, a list of numbers on one line, so that a line holds what a reader looks for."""
    text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False)
    return (_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n").encode()


def _json(path: Path, where: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise RoundError(f"unreadable: {error}", where=where) from None
    return found if isinstance(found, dict) else {}


def _all_files(root: Path) -> set[str]:
    return {file.relative_to(root).as_posix() for file in root.rglob("*") if file.is_file()}


def _clear(folder: Path) -> None:
    for file in folder.glob("*"):
        file.unlink()


def _first(error: ValidationError) -> str:
    worst = error.errors()[0]
    return f"{'/'.join(map(str, worst['loc']))}: {worst['msg']} ({error.error_count()} in all)"
