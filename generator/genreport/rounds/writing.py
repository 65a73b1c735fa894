"""A round being recorded: everything is flushed as it comes and passes the redactor on its way, seals are written last."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from genreport.errors import RoundError
from genreport.records import (
    LaunchFacts,
    LevelFacts,
    MachineFacts,
    ModelFacts,
    Record,
    Redact,
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
    SAMPLES,
    SEAL,
    SLOTS,
    START_LOG,
    all_files,
    digest_of,
    dumped,
    packed,
    part_of,
    write_part,
    write_whole,
)

# what a beginning that was cut short leaves
BEGINNING = {HEAD + PART, PLAN + PART}
# files of numbers that are made here: nobody's text is in them
NUMBERS = {SAMPLES, SLOTS}
# what only some requests have: the ones in a conversation, those of few servers
RARE = ("conversation", "turn", "retokenized")


def as_given(value: Any) -> Any:
    return value


class RoundWriter:
    """A round being recorded. `redact` takes what must not be published out of any JSON-like value before it is written."""

    def __init__(self, path: str | Path, redact: Redact = as_given) -> None:
        self.path, self._redact = Path(path), redact

    @property
    def exists(self) -> bool:
        return (self.path / HEAD).is_file()

    @property
    def blocked(self) -> bool:
        """Whether something is in the way that no round has left there."""
        if not self.path.exists():
            return False
        return not self.path.is_dir() or any(entry.name not in BEGINNING for entry in self.path.iterdir())

    @contextmanager
    def held(self) -> Iterator[None]:
        """The folder, made if need be, for this recorder alone; the system lets go of it when the process ends, even killed."""
        self.path.mkdir(parents=True, exist_ok=True)
        folder = os.open(self.path, os.O_RDONLY)
        try:
            _lock(folder, self.path)
            yield
        finally:
            os.close(folder)

    def head(self, head: RoundHead, plan: str) -> None:
        """Begins the round; cut short, it leaves nothing that is in the way, or a round that `mend` makes whole."""
        write_part(self.path / PLAN, self._redact(plan).encode())
        self._write(HEAD, head)
        self.mend()

    def mend(self) -> None:
        """Ends a beginning that was cut short between its two files."""
        plan = self.path / PLAN
        if not plan.is_file() and part_of(plan).is_file():
            part_of(plan).replace(plan)

    def machine(self, machine: MachineFacts) -> None:
        self._write(MACHINE, machine)

    def model(self, model: ModelFacts) -> str:
        """Stores a model's tensor list under its files' hash; returns the path relative to the round."""
        key = hashlib.sha256("".join(file.sha256 for file in model.files).encode()).hexdigest()[:12]
        file = f"models/{key}.json"
        self._write(file, model)
        return file

    def next_launch(self, name: str) -> str:
        """An unused launch id for an engine (`engine` or `engine+test`)."""
        taken = [int(p.name) for p in (self.path / "launches" / name).glob("*") if p.name.isdigit()]
        return f"{name}/{max(taken, default=0) + 1}"

    def launch(self, launch: str, facts: LaunchFacts, start_log: str | None) -> None:
        if start_log is not None:
            write_whole(self.path / "launches" / launch / START_LOG, packed(self._redact(start_log)))
        self._write(f"launches/{launch}/{LAUNCH}", facts)

    def sealed_levels(self) -> set[str]:
        """Keys (`test/engine/level/rN`) of the repeats that are done and need no second measurement."""
        return {
            p.parent.relative_to(self.path / "levels").as_posix() for p in self.path.glob(f"levels/*/*/*/*/{FACTS}")
        }

    def level(self, key: str) -> LevelWriter:
        """Opens `test/engine/level/rN`, dropping what an earlier attempt left unsealed there."""
        return LevelWriter(self.path / "levels" / key, self._redact)

    def seal(self, finished_unix_us: int) -> Seal:
        """Drops unsealed levels and half-written files, and seals what is left."""
        done = self.sealed_levels()
        for folder in self.path.glob("levels/*/*/*/r*"):
            if folder.relative_to(self.path / "levels").as_posix() not in done:
                _clear(folder)
        for part in self.path.rglob(f"*{PART}"):
            part.unlink()
        files = {name: digest_of(self.path / name) for name in sorted(all_files(self.path) - {SEAL})}
        seal = Seal(finished_unix_us=finished_unix_us, files=files)
        self._write(SEAL, seal)
        return seal

    def unseal(self) -> None:
        (self.path / SEAL).unlink(missing_ok=True)

    def _write(self, file: str, record: Record) -> None:
        write_whole(self.path / file, dumped(record.published(self._redact)))


def _lock(folder: int, path: Path) -> None:
    """Where a file system knows no locks there is none."""
    import fcntl  # not on Windows, where rounds can be read

    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        cure = "wait until it is done, or name another --out"
        raise RoundError("is being recorded by another process", where=str(path), cure=cure) from None
    except OSError:
        pass


class LevelWriter:
    """One repeat being recorded: requests are appended line by line, other files written whole, facts last."""

    def __init__(self, path: Path, redact: Redact = as_given) -> None:
        self.path, self._redact = path, redact
        _clear(path)
        path.mkdir(parents=True, exist_ok=True)
        self._requests = (path / REQUESTS).open("w", encoding="utf-8")
        self._lines = 0
        # lines of measured requests whose tokens nobody counted, and how many more cannot be counted from what is written
        self.uncounted: list[int] = []
        self.uncountable = 0

    def request(self, request: Request) -> None:
        shown = request.published(self._redact)
        self._requests.write(shown.model_dump_json(exclude=_rare(shown)) + "\n")
        self._requests.flush()
        if request.uncounted and not request.warmup:
            if request.tells_all and shown.text == request.text:
                self.uncounted.append(self._lines)
            else:
                self.uncountable += 1
        self._lines += 1

    def texts(self) -> Iterator[tuple[int, str]]:
        """Line and text of each request in `uncounted`."""
        wanted = iter([*self.uncounted, -1])
        line = next(wanted)
        with (self.path / REQUESTS).open("rb") as lines:
            for place, data in enumerate(lines):
                if place == line:
                    yield line, json.loads(data)["text"]
                    line = next(wanted)

    def recount(self, tokens: Mapping[int, int]) -> None:
        """Adds to the requests on these lines what a tokenizer counted of their texts."""
        self._requests.close()
        file = self.path / REQUESTS
        with file.open("rb") as lines, part_of(file).open("wb") as part:
            part.writelines(_retokenized(data, tokens.get(place)) for place, data in enumerate(lines))
        part_of(file).replace(file)
        self._requests = file.open("a", encoding="utf-8")

    def text(self, name: str, text: str) -> None:
        """A whole file; a name that ends in .gz is packed."""
        shown = text if name in NUMBERS else self._redact(text)
        write_whole(self.path / name, packed(shown) if name.endswith(".gz") else shown.encode())

    def seal(self, facts: dict[str, Any]) -> LevelFacts:
        """Closes the level: hashes its files into `facts` (everything of LevelFacts but `files`) and writes them."""
        os.fsync(self._requests.fileno())
        self._requests.close()
        names = sorted(p.name for p in self.path.iterdir() if p.name != FACTS and not p.name.endswith(PART))
        files = {name: digest_of(self.path / name) for name in names}
        sealed = LevelFacts(**facts, files=files).published(self._redact)
        write_whole(self.path / FACTS, dumped(sealed))
        return sealed

    def abandon(self) -> None:
        self._requests.close()


def _rare(request: Request) -> set[str] | None:
    """What is written only where it was observed: a line holds it for few servers."""
    return {name for name in RARE if getattr(request, name) is None} or None


def _retokenized(line: bytes, tokens: int | None) -> bytes:
    return line if tokens is None else b'%b,"retokenized":%d}\n' % (line.rstrip()[:-1], tokens)


def _clear(folder: Path) -> None:
    for file in folder.glob("*"):
        file.unlink()
