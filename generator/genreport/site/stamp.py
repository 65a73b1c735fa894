"""Whether a site is the one that these rounds, this program and these options give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from genreport import __version__, cores
from genreport.places import STAMP
from genreport.rounds import Round
from genreport.rounds.files import all_files

_LIBRARIES = ("altair", "jinja2", "markdown", "mkdocs", "mkdocs-material", "pymdown-extensions", "vl-convert-python")


def key(rounds: Sequence[Round], resources: Path, options: Mapping[str, Any]) -> str:
    """A hash of everything a build depends on: evidence by its bytes, the program by its sources."""
    program = Path(__file__).parents[1]
    parts = {
        "rounds": [[found.name, [[file, found.digest(file).sha256] for file in found.evidence()]] for found in rounds],
        "unsealed": [found.unsealed for found in rounds],
        "tool": [__version__, *(_version(name) for name in _LIBRARIES)],
        "sources": [_hash(program, program.rglob("*.py")), _hash(resources, _inputs(resources))],
        "options": options,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def content(site: Path) -> str:
    """A hash of a site's files, so that a damaged one is built again."""
    return _hash(site, (site / file for file in all_files(site) if file.rpartition("/")[2] != STAMP))


def holds(site: Path, wanted: str) -> bool:
    known = read(site)
    return known.get("key") == wanted and known.get("content") == content(site)


def read(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(folder: Path, facts: dict[str, str]) -> None:
    (folder / STAMP).write_text(json.dumps(facts) + "\n", "utf-8")


def _inputs(resources: Path) -> Iterable[Path]:
    docs, generated = resources / "docs", resources / "docs" / "rounds"
    written = (file for file in docs.rglob("*") if generated not in file.parents and file.name != "vega.js")
    return [resources / "mkdocs.yml", *written, *(resources / "templates").rglob("*")]


def _hash(root: Path, files: Iterable[Path]) -> str:
    """Of all names and contents; files are read by several threads, since hashing leaves Python to others."""
    named = sorted(file for file in files if "__pycache__" not in file.parts and file.is_file())
    with ThreadPoolExecutor(cores.count()) as threads:
        hashed = zip(named, threads.map(_hash_of, named), strict=True)
        lines = [f"{file.relative_to(root)}\0{digest}\n" for file, digest in hashed]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _hash_of(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
