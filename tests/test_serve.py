"""The preview: what `genreport build` would publish, from a server, and anew when a round changes."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from compose import compose_round, sweep

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


def command(port: int, *more: str) -> list[str]:
    return [str(Path(sys.executable).with_name("genreport")), "serve", "now", "--port", str(port), *more]


@pytest.fixture
def folder(tmp_path) -> Path:
    for name in ("then", "now"):
        compose_round(tmp_path / name, tests=(sweep(1, 2),), repeats=2)
    return tmp_path


@pytest.fixture
def served(folder, port) -> Iterator[subprocess.Popen]:
    more = ("--against", "then", "--slo", "ttft_p99=777ms")
    with (folder / "said").open("w") as said:
        process = subprocess.Popen(command(port, *more), cwd=folder, stdout=said, stderr=said)
        yield process
        process.terminate()
        process.wait()


def page(port: int, path: str, holds: Callable[[str], bool]) -> str:
    """A page, once it holds what is awaited."""
    end, text = time.monotonic() + PATIENCE_S, "no answer"
    while time.monotonic() < end:
        try:
            text = httpx.get(f"http://127.0.0.1:{port}/{path}").text
        except httpx.TransportError:
            pass
        else:
            if holds(text):
                return text
        time.sleep(0.2)
    raise AssertionError(f"{path} never held it: {text[:500]}")


def test_a_preview_compares_and_answers_limits_and_shows_a_change(folder, served, port):
    assert "777" in page(port, "rounds/now/index.html", lambda text: "gr-answer" in text)
    page(port, "rounds/now/against-then/index.html", lambda text: "gr-answer" in text)
    plan = folder / "now" / "plan.yaml"
    plan.write_text(json.dumps(yaml.safe_load(plan.read_text("utf-8")) | {"not_measured": ["the weather"]}), "utf-8")
    page(port, "rounds/now/index.html", lambda text: "the weather" in text)
    served.send_signal(signal.SIGTERM)  # as Ctrl-C
    assert served.wait(30) == 0
    assert [path.name for path in folder.iterdir() if path.name.startswith(".genreport")] == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/")


def test_a_preview_on_a_port_in_use_says_so_before_it_builds(folder, port):
    with socket.create_server(("127.0.0.1", port)):
        done = subprocess.run(
            command(port), cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    said = f"--port: port {port}: Address already in use; name another one\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
