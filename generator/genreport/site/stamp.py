"""Whether a site is the one that these rounds, this program and these options give."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from genreport import __version__
from genreport.rounds import Round

NAME = ".genreport-stamp.json"
_LIBRARIES = ("altair", "jinja2", "markdown", "mkdocs", "mkdocs-material", "pymdown-extensions", "vl-convert-python")


def key(rounds: Sequence[Round], resources: Path, options: Mapping[str, Any]) -> str:
    """A hash of everything a build depends on: evidence by its bytes, the program by its sources."""
    program = Path(__file__).parents[1]
    parts = {
        "rounds": [[found.name, _hash(found.path, map(found.path.joinpath, found.evidence()))] for found in rounds],
        "unsealed": [found.unsealed for found in rounds],
        "tool": [__version__, *(_version(name) for name in _LIBRARIES)],
        "sources": [_hash(program, program.rglob("*.py")), _hash(resources, _inputs(resources))],
        "options": options,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def content(site: Path) -> str:
    """A hash of a site's files, so that a damaged one is built again."""
    return _hash(site, (file for file in site.rglob("*") if file.is_file() and file.name != NAME))


def holds(site: Path, wanted: str) -> bool:
    known = read(site)
    return known.get("key") == wanted and known.get("content") == content(site)


def read(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / NAME).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(folder: Path, facts: dict[str, str]) -> None:
    (folder / NAME).write_text(json.dumps(facts) + "\n", "utf-8")


def _inputs(resources: Path) -> Iterable[Path]:
    docs, generated = resources / "docs", resources / "docs" / "rounds"
    written = (file for file in docs.rglob("*") if generated not in file.parents and file.name != "vega.js")
    return [resources / "mkdocs.yml", *written, *(resources / "templates").rglob("*")]


def _hash(root: Path, files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file() and "__pycache__" not in file.parts):
        with file.open("rb") as data:
            whole.update(f"{file.relative_to(root)}\0{hashlib.file_digest(data, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
