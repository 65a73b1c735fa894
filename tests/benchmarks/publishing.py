"""How long publishing takes and how much its pages weigh, on this machine, as a Markdown table: `make bench`.

Each line is measured in a process of its own. Rounds are composed out of a recorded one, see `big`. What others need for the
same number of requests is measured beside it where they are installed; where not, the table says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from statistics import median

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import big, peers
from genreport.rounds import Round

HOME = Path(__file__).parents[2]
GENREPORT = Path(sys.executable).with_name("genreport")
MIB = 2**20
PAGE_KB = 400
# requests composed -> seconds and MiB that a build may take
LIMITS = {3600: (10, None), 100_000: (90, 2000)}
UNCHANGED_S, CHART_S = 3, 1
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass(frozen=True)
class Run:
    """A finished process: seconds, the largest sum of resident memory of it and its children, what it said."""

    seconds: float
    peak_bytes: int
    said: str


@dataclass(frozen=True)
class Line:
    """A line of the table; `holds` is `None` where no limit is set."""

    what: str
    value: str
    limit: str = ""
    holds: bool | None = None
    compared: str = ""

    def markdown(self) -> str:
        held = {None: "", True: "yes", False: "**no**"}[self.holds]
        return f"| {self.what} | {self.value} | {self.limit} | {held} | {self.compared} |"


def measured(command: list[str | Path], cwd: Path, **environment: str) -> Run:
    """Runs a command to its end; SystemExit with its words if it fails."""
    with tempfile.TemporaryFile("w+") as said:
        began = time.monotonic()
        process = subprocess.Popen(
            [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, stdout=said, stderr=said
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.05)
        seconds = time.monotonic() - began
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{text[-3000:]}")
    return Run(seconds, peak, text)


def _resident(pid: int) -> int:
    """Resident bytes of a process and its children together; memory that they share is counted for each."""
    try:
        root = psutil.Process(pid)
        return sum(process.memory_info().rss for process in (root, *root.children(recursive=True)))
    except psutil.Error:
        return 0


# ------------------------------------------------------------------------------------- our own


def builds(work: Path, source: Round, sizes: list[int]) -> Iterator[Line]:
    """A first build of each size, with nothing kept from an earlier one, and one with nothing to do."""
    for requests in sizes:
        folder = work / f"r{requests}"
        composed = big.compose(folder / "composed", source, big.Size(requests))
        kept = work / "cache"
        shutil.rmtree(kept, ignore_errors=True)
        command = [GENREPORT, "build", composed.path, "--site", folder / "site"]
        first = measured(command, folder, XDG_CACHE_HOME=str(kept))
        seconds, most = LIMITS.get(requests, (None, None))
        limit = " and ".join(filter(None, (seconds and f"{seconds} s", most and f"{most:,} MB")))
        within = (not seconds or first.seconds < seconds) and (not most or first.peak_bytes < most * MIB)
        yield Line(
            f"build of {requests:,} requests × 256 tokens, no cache",
            f"{first.seconds:.1f} s, {first.peak_bytes / MIB:,.0f} MB; {first.seconds / requests * 1e3:.2f} ms a request",
            limit,
            within if limit else None,
        )
        again = measured(command, folder, XDG_CACHE_HOME=str(kept))
        if "up to date" not in again.said:
            raise SystemExit(f"built again, though nothing had changed: {again.said}")
        yield Line(
            f"the same, unchanged ({requests:,})",
            f"{again.seconds:.1f} s",
            f"{UNCHANGED_S} s",
            again.seconds < UNCHANGED_S,
        )


def weights(site: Path, name: str) -> Iterator[Line]:
    """The heaviest page of each kind, as a browser loads it beside what all pages share."""
    rounds = [folder for folder in site.glob("rounds/*") if folder.is_dir()]
    kinds: dict[str, Callable[[Path], list[Path]]] = {
        "report page": lambda folder: [*folder.glob("index.html"), *folder.glob("*/index.html")],
        "derivation page": lambda folder: [*folder.glob("figures/*.html")],
        "listing page": lambda folder: [p for p in folder.glob("sources/**/*.html") if p.parent.name != "sources"],
    }
    for kind, pages in kinds.items():
        found = [page for folder in rounds for page in pages(folder)]
        heaviest = max(found, key=lambda page: page.stat().st_size)
        size = heaviest.stat().st_size
        where = heaviest.relative_to(site / "rounds").as_posix().partition("/")[2]
        yield Line(
            f"heaviest {kind} of {name} (of {len(found):,})",
            f"{size / 1000:,.0f} kB (`{where}`)",
            f"{PAGE_KB} kB",
            size < PAGE_KB * 1000,
        )


def first_chart(site: Path, name: str) -> Iterator[Line]:
    """Seconds from the click to the first drawn chart of report 01, in a fresh profile each time."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        yield Line(f"first chart of {name} in Chromium", "not measured: no Chromium", f"{CHART_S} s")
        return
    page = next(site.glob("rounds/*/concurrency/index.html")).relative_to(site).as_posix()
    with _served(site) as url:
        times = [_drawn_s(chromium, url + page) for _ in range(5)]
    yield Line(
        f"first chart of {name} in Chromium, median of {len(times)}",
        f"{median(times):.2f} s ({min(times):.2f} to {max(times):.2f})",
        f"{CHART_S} s",
        median(times) < CHART_S,
    )


# notes when the first drawing stands in the page
WATCH = """
new MutationObserver((_, watcher) => {
  if (!document.querySelector(".gr-chart svg .mark-line path, .gr-chart svg .mark-symbol path")) return;
  window.firstChart = performance.now();
  watcher.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


def _drawn_s(chromium: str, url: str) -> float:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page()
        page.add_init_script(WATCH)
        page.goto(url)
        page.wait_for_function("window.firstChart", timeout=30_000)
        found = page.evaluate("window.firstChart") / 1000
        browser.close()
    return found


class _served:
    """A folder over HTTP on this machine."""

    def __init__(self, folder: Path) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self) -> str:
        self.thread.start()
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


# ------------------------------------------------------------------------------------- the table


def machine() -> str:
    """What the numbers belong to."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    tools = ", ".join(f"{name} {version(name)}" for name in ("altair", "mkdocs-material", "numpy", "pydantic"))
    return (
        f"{model[1] if model else platform.machine()}, {os.cpu_count()} cores, "
        f"{psutil.virtual_memory().total / 2**30:.0f} GiB; Python {platform.python_version()}, "
        f"genreport {version('genreport')}, {tools}; {time.strftime('%Y-%m-%d')}; "
        f"load before: {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--round", type=Path, default=HOME / "runs" / "round2", help="the recorded round to compose of")
    parser.add_argument("--requests", type=int, nargs="*", default=[3600, 20_000, 100_000], help="sizes to compose")
    parser.add_argument("--levels", type=int, default=3000, help="levels of the round of many levels; 0 leaves it out")
    parser.add_argument("--compare", type=int, default=3600, help="requests that the others are given")
    parser.add_argument("--vllm", type=Path, help="the vllm command")
    parser.add_argument("--plot-packages", type=Path, help="folder with matplotlib and seaborn, where vllm has none")
    parser.add_argument("--guidellm", type=Path, help="the guidellm command")
    parser.add_argument("--tokenizer", type=Path, help="folder of a model's tokenizer, for guidellm")
    parser.add_argument("--work", type=Path, help="folder for rounds and sites; a temporary one by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genreport-bench-", dir=given.work) as work:
        lines = [line for part in parts(given, Path(work)) for line in _told(part)]
    print(f"\nMachine: {machine()}.\n")
    print("| what | value | limit | holds | compared to |\n|---|---|---|---|---|")
    print("\n".join(line.markdown() for line in lines))


def parts(given: argparse.Namespace, work: Path) -> Iterator[Iterator[Line]]:
    """What is measured, in order."""
    source = Round(given.round)
    yield recorded(work, given.round)
    yield builds(work, source, given.requests)
    for requests in given.requests[:1]:
        site = work / f"r{requests}" / "site"
        yield weights(site, f"{requests:,} requests")
        yield first_chart(site, f"{requests:,} requests")
    if given.levels:
        yield many_levels(work, source, given.levels)
    yield peers.lines(work, source, given, measured, Line)


def recorded(work: Path, path: Path) -> Iterator[Line]:
    """The recorded round itself: build, audit, pages, first chart."""
    folder = work / "recorded"
    folder.mkdir()
    first = measured([GENREPORT, "build", path, "--site", folder / "site"], folder, XDG_CACHE_HOME=str(work / "cache"))
    yield Line(f"build of {path.name}, no cache", f"{first.seconds:.1f} s, {first.peak_bytes / MIB:,.0f} MB")
    audit = measured([GENREPORT, "audit", folder / "site"], folder)
    yield Line(f"audit of {path.name}", f"{audit.seconds:.1f} s, {audit.peak_bytes / MIB:,.0f} MB")
    yield from weights(folder / "site", path.name)
    yield from first_chart(folder / "site", path.name)


def many_levels(work: Path, source: Round, levels: int) -> Iterator[Line]:
    """A round of very many levels with few requests each: as long per level as one of a third as many."""
    per_level = []
    for count in (levels // 3, levels):
        folder = work / f"l{count}"
        size = big.Size(requests=8 * count, output=16, levels=tuple(range(1, count // 3 + 1)), repeats=1)
        big.compose(folder / "composed", source, size)
        command = [GENREPORT, "build", folder / "composed", "--site", folder / "site"]
        run = measured(command, folder, XDG_CACHE_HOME=str(work / "cache"))
        per_level.append(run.seconds / count)
        yield Line(
            f"build of {count:,} levels, 8 requests each",
            f"{run.seconds:.0f} s, {run.peak_bytes / MIB:,.0f} MB; {run.seconds / count * 1e3:.1f} ms a level",
        )
    yield from weights(work / f"l{levels}" / "site", f"{levels:,} levels")


def _told(part: Iterator[Line]) -> Iterator[Line]:
    """Each line on stderr as soon as it is known, since the whole takes minutes."""
    for line in part:
        print(line.markdown(), file=sys.stderr, flush=True)
        yield line


if __name__ == "__main__":
    main()
