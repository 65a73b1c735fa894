"""What tests in a real Chromium share; the fixtures themselves are in conftest.py."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROUND = Path(__file__).parents[1] / "runs" / "round2"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
]  # fmt: skip


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(site: Path, *rounds: Path, earlier: Path | None = None) -> Iterator[str]:
    """Builds the site of the rounds, compared with an earlier one, for the address it is then served from."""
    from genreport.publish import Against, publish

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    url = f"http://127.0.0.1:{server.server_address[1]}/"
    with server:  # closes its socket, whatever happens
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SITE_URL", url)
            patch.chdir(site.parent)
            publish(rounds, site, compared=Against(tuple((round, earlier) for round in rounds if earlier)))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield url
        server.shutdown()
        thread.join()


@contextmanager
def opened() -> Iterator:
    """A Chromium without a window."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium, "no Chromium on the PATH: see tests/browser.sh"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


def watched(context):
    """A page that remembers console errors and every request that left the site."""
    page = context.new_page()
    page.problems, page.requested = [], []
    page.on("console", lambda m: page.problems.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", lambda request: page.requested.append(request.url))
    return page


def pages_of(site: Path) -> list[str]:
    """Every page with the site's chrome below the round, relative to the site."""
    found = (p for p in site.glob("rounds/*/**/index.html"))
    return sorted(p.relative_to(site).as_posix() for p in found if "/sources/" not in p.as_posix())


def draw_all(page) -> int:
    """Scrolls each chart into view and waits until it is drawn; returns how many there are."""
    charts = page.locator(".gr-chart")
    for place in range(charts.count()):
        charts.nth(place).scroll_into_view_if_needed()
        charts.nth(place).locator("svg").first.wait_for(timeout=10_000)
    return charts.count()
