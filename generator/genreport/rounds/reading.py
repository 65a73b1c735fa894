"""A round opened for reading."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from genreport.errors import NoRound, RoundError, WrongFormat, printable
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
from genreport.rounds.files import (
    FACTS,
    HEAD,
    LAUNCH,
    MACHINE,
    PART,
    PLAN,
    REQUESTS,
    SEAL,
    START_LOG,
    all_files,
    digest,
    unpacked,
)

R = TypeVar("R", bound=Record)


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
    """A round opened for reading; files are read when first asked for, and RoundError names one that can not be."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._digests: dict[str, FileFact] = {}
        head = self.path / HEAD
        if not head.is_file():
            what = "no such round" if not self.path.exists() else f"not a round: it has no {HEAD}"
            raise NoRound(what, where=str(path), cure="name the folder that `genreport run --out` wrote")
        found = self._json(HEAD).get("format")
        if found != ROUND_FORMAT:
            raise WrongFormat(f"format {found!r}", where=str(head), cure=f"this version reads {ROUND_FORMAT}")
        self.head = self._record(HEAD, RoundHead)
        self.name = self.path.resolve().name

    def __reduce__(self) -> tuple[type[Round], tuple[Path]]:
        """Another process opens it anew."""
        return Round, (self.path,)

    @property
    def sealed(self) -> bool:
        return (self.path / SEAL).is_file()

    @cached_property
    def seal(self) -> Seal:
        return self._record(SEAL, Seal)

    @cached_property
    def plan(self) -> dict[str, Any]:
        try:
            found = yaml.safe_load(self.text(PLAN)) or {}
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise RoundError(f"not YAML: {printable(' '.join(str(error).split()))}", where=self.where(PLAN)) from None
        if not isinstance(found, dict):
            raise RoundError("not a plan: it is no mapping", where=self.where(PLAN))
        return found

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
        found: list[Request] = []
        for number, line in enumerate(self.text(level.requests_file).split("\n"), 1):  # U+2028 may stand in an answer
            try:
                if line:
                    found.append(Request.model_validate_json(line))
            except ValidationError as error:
                where = f"{self.where(level.requests_file)}:{number}"
                raise RoundError(_first(error), where=where, cure="record the level again") from None
        return found

    def evidence(self) -> list[str]:
        """Every file of the round that may be cited: sealed levels only, seal included, sorted."""
        whole = {level.path for level in self.levels}
        files = {file for file in all_files(self.path) if not file.endswith(PART)}
        return sorted(file for file in files if not file.startswith("levels/") or file.rsplit("/", 1)[0] in whole)

    def bytes(self, file: str) -> bytes:
        try:
            return (self.path / file).read_bytes()
        except OSError as error:
            raise RoundError(error.strerror or "unreadable", where=self.where(file)) from None

    def digest(self, file: str) -> FileFact:
        """Hash and size of a file as it was when first asked for."""
        if file not in self._digests:
            self._digests[file] = digest(self.bytes(file))
        return self._digests[file]

    def unpacked(self, file: str) -> bytes:
        """A file's bytes, unzipped where they are packed."""
        data = self.bytes(file)
        return unpacked(data, self.where(file)) if file.endswith(".gz") else data

    def text(self, file: str) -> str:
        """A file's text, unzipped; bytes that are no UTF-8 are shown as U+FFFD."""
        return self.unpacked(file).decode("utf-8", "replace")

    def where(self, file: str) -> str:
        """A file's path as messages show it."""
        return f"{self.path}/{file}"

    def _relative(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def _json(self, file: str) -> dict[str, Any]:
        try:
            found = json.loads(self.bytes(file))
        except (ValueError, RecursionError) as error:
            raise RoundError(f"unreadable: {error}", where=self.where(file)) from None
        return found if isinstance(found, dict) else {}

    def _record(self, file: str, kind: type[R]) -> R:
        try:
            return kind.model_validate_json(self.bytes(file))
        except ValidationError as error:
            raise RoundError(_first(error), where=self.where(file), cure="record the round again") from None


def _first(error: ValidationError) -> str:
    worst = error.errors()[0]
    place = f"{'/'.join(map(str, worst['loc']))}: " if worst["loc"] else ""
    return printable(f"{place}{worst['msg']} ({error.error_count()} in all)")
