"""Names and bytes of a round's files."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import zlib
from pathlib import Path

from genreport.errors import RoundError
from genreport.records import FileFact, Record

HEAD, PLAN, MACHINE, SEAL = "round.json", "plan.yaml", "machine.json", "seal.json"
REQUESTS, BEFORE, AFTER, SAMPLES, SLOTS = (
    "requests.jsonl", "before.prom.gz", "after.prom.gz", "samples.jsonl", "slots.jsonl",
)  # fmt: skip
ENGINE_LOG, GPU, FACTS, LAUNCH, START_LOG = "engine.log.gz", "gpu.csv", "facts.json", "launch.json", "start.log.gz"

# ends the name of a file that is being written
PART = ".part"

_NUMBERS = re.compile(r"\[\n\s*([-\d.,\se+]+?)\s+\]")  # a string of JSON holds no line break


def digest(data: bytes) -> FileFact:
    """Hash and size of a file's bytes as stored."""
    return FileFact(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def digest_of(path: Path) -> FileFact:
    """The same of a file, whatever its size."""
    with path.open("rb") as file:
        return FileFact(sha256=hashlib.file_digest(file, "sha256").hexdigest(), bytes=path.stat().st_size)


def packed(text: str | bytes) -> bytes:
    """Gzip without a time stamp, so that equal text gives equal bytes."""
    return gzip.compress(text if isinstance(text, bytes) else text.encode(), compresslevel=6, mtime=0)


def unpacked(data: bytes, where: str) -> bytes:
    """What was packed; RoundError, which names the place, when the data is cut or damaged."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise RoundError(f"broken gzip: {error}", where=where, cure="restore the file or record it again") from None


def dumped(record: Record) -> bytes:
    """Indented, a list of numbers on one line, so that a line holds what a reader looks for."""
    text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False)
    return (_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n").encode()


def part_of(path: Path) -> Path:
    return path.with_name(path.name + PART)


def write_part(path: Path, data: bytes) -> Path:
    """The data beside the path and on disk, to be renamed to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(path)
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return part


def write_whole(path: Path, data: bytes) -> None:
    """The file as it was or with all of the data, whenever the process ends."""
    write_part(path, data).replace(path)


def all_files(root: Path) -> set[str]:
    """Every file below the folder, relative to it."""
    below = len(os.path.join(root, ""))
    found = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {file[below:].replace(os.sep, "/") for file in found if os.path.isfile(file)}
