"""The chart library of the pages: Vega, Vega-Lite and their embedding as one local script."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

VEGA_LITE = "6.4"
NAME = "assets/vega.js"
# what a process does that only makes the script
COMMAND = f"import sys, pathlib; from {__name__} import write_bundle; write_bundle(pathlib.Path(sys.argv[1]))"
# one name leaves the bundle; its own top-level names stay inside the function around it
_EXPORTS = "window.genreportEmbed = vegaEmbed;"


@contextmanager
def written_meanwhile(target: Path) -> Iterator[None]:
    """Puts the script at `target` while something else is done: by another process where it must be built first."""
    if _is_current(target) or _is_current(_kept()):
        write_bundle(target)
        yield
        return
    command = [sys.executable, "-c", COMMAND, str(target)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as making:
        yield
    if making.returncode:
        write_bundle(target)  # it says here what went wrong


def write_bundle(target: Path) -> None:
    """Puts the script at `target`; it is built once per version of vl-convert and kept in the user's cache."""
    if _is_current(target):
        return
    script = _cached()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(script, "utf-8")


def _is_current(target: Path) -> bool:
    if not target.is_file():
        return False
    with target.open(encoding="utf-8") as file:
        return file.readline().rstrip("\n") == _heading()


def _heading() -> str:
    return f"/* vl-convert {version('vl-convert-python')}, Vega-Lite {VEGA_LITE}: built, not written */"


def _cached() -> str:
    kept = _kept()
    if _is_current(kept):
        return kept.read_text("utf-8")
    script = _made()
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=kept.parent, delete=False) as file:
            file.write(script)
        Path(file.name).replace(kept)
    except OSError:  # a home that cannot be written to costs two seconds a build, nothing else
        pass
    return script


def _kept() -> Path:
    return _cache_folder() / f"vega-{version('vl-convert-python')}-{VEGA_LITE}.js"


def _made() -> str:
    import vl_convert

    library = vl_convert.javascript_bundle(_EXPORTS, vl_version=VEGA_LITE)
    return f"{_heading()}\n(() => {{\n{library}\n}})();\n"


def _cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "genreport"


def svg(spec: dict[str, Any]) -> str:
    """A chart as a picture, drawn by the same library; it may load nothing."""
    import vl_convert

    return vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
