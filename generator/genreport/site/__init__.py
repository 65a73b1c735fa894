"""From sealed rounds to a folder a browser can open, all of it or nothing.

Everything is gathered and written into a staging folder first, MkDocs builds there, and only a whole site takes the old
one's place, by renaming. In a checkout the pages written for MkDocs take their place in docs/rounds/ too, so that plain
`mkdocs serve` and `mkdocs build` go on from there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from genreport import cores
from genreport.errors import BuildError, OptionError, printable
from genreport.places import CARDS, MANIFEST, SOURCES
from genreport.provenance import Ledger, plain
from genreport.rounds import Round
from genreport.site import bundle, cards, stamp

HOST = "127.0.0.1"
POLL_S = 1.0
LEFT_OUT = shutil.ignore_patterns("rounds", "vega.js", "__pycache__", ".*")


@dataclass(frozen=True)
class SitePages:
    """What a round says: its ledger, its Markdown pages as (path below the round's folder, text), its entry in the list.

    `files` are whole files beside the pages, which MkDocs publishes as they are; `shown` are the figures the pages print.
    """

    ledger: Ledger
    pages: Sequence[tuple[str, str]]
    entry: str = ""
    files: Sequence[tuple[str, str]] = ()
    shown: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Built:
    """A site that stands: where, whether it had to be built, and how long that took."""

    path: Path
    fresh: bool
    seconds: float
    steps: dict[str, float] = field(default_factory=dict)


Pages = Callable[[Round], SitePages]
Telling = Callable[[Sequence[Round]], Pages]
# the entries of all rounds, the newest first, to the Markdown of their list
Index = Callable[[Sequence[str]], str]


def build(
    rounds: Sequence[Round],
    pages: Pages,
    site_dir: str | Path = "site",
    *,
    index: Index,
    options: Mapping[str, Any] | None = None,
    home: Path | None = None,
) -> Built:
    """Builds the site of exactly these rounds, or finds it up to date; on any failure the old site stays.

    `pages` is only called when something changed. `options` is whatever else the result depends on. `home` is the
    checkout (by default the working directory, if it is one); `index` makes the list of rounds.
    """
    began, site, home = time.monotonic(), Path(site_dir), home or checkout()
    _refuse_names(rounds)
    key = stamp.key(rounds, resources(), {**(options or {}), "url": os.environ.get("SITE_URL", "")})
    if stamp.holds(site, key) and (home is None or stamp.read(home / "docs" / "rounds").get("key") == key):
        return Built(site, fresh=False, seconds=time.monotonic() - began)
    _refuse_target(site)
    cores.get_ready()
    steps = _Steps()
    site.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".genreport-", dir=site.parent) as staging:
        stage = Path(staging)
        write_docs(stage, rounds, pages, index, steps)
        _mkdocs_build(stage, rounds)
        steps.done("mkdocs")
        stamp.write(stage / "docs" / "rounds", {"key": key})
        stamp.write(stage / "site", {"key": key, "content": stamp.content(stage / "site")})
        _swap(stage / "site", site)
        if home is not None:
            _publish_docs(stage, home)
        steps.done("swap")
    return Built(site, fresh=True, seconds=time.monotonic() - began, steps=steps.seconds)


def serve(
    rounds: Sequence[Round],
    telling: Telling,
    *,
    port: int,
    index: Index,
    home: Path | None = None,
) -> int:
    """Previews the rounds until interrupted; a changed template, page or evidence file is shown at once.

    `telling` begins with the rounds as they then are, so that a change to one reaches what others say of it. In a checkout
    MkDocs serves its own docs/, elsewhere a temporary copy.
    """
    _refuse_taken(port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # or MkDocs would go on without us
    home = home or checkout()
    with tempfile.TemporaryDirectory(prefix=".genreport-", dir=home) as folder:
        root = home or Path(folder)
        watched = _Watched(rounds)
        _refresh(Path(folder), root, rounds, telling, index)
        served = [*_mkdocs(), "serve", "--dev-addr", f"{HOST}:{port}"]
        server = subprocess.Popen(served, cwd=root, env=_environment())
        try:
            while server.poll() is None:
                time.sleep(POLL_S)
                if watched.changed():
                    _try_refresh(Path(folder), root, rounds, telling, index)
            return server.returncode
        except KeyboardInterrupt:
            return 0
        finally:
            server.terminate()
            server.wait()


def _refuse_taken(port: int) -> None:
    """MkDocs would find out after the site is built."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise OptionError(f"port {port}: {error.strerror}", where="--port", cure="name another one") from None


def _refresh(folder: Path, root: Path, rounds: Sequence[Round], telling: Telling, index: Index) -> None:
    """Writes the docs anew beside those being served, then puts the rounds in place."""
    with tempfile.TemporaryDirectory(dir=folder) as staging:
        stage = Path(staging)
        write_docs(stage, rounds, telling(rounds), index)
        if not (root / "mkdocs.yml").exists():
            shutil.copy(stage / "mkdocs.yml", root / "mkdocs.yml")
            shutil.copytree(stage / "docs", root / "docs")
        else:
            _publish_docs(stage, root)


def _try_refresh(folder: Path, root: Path, rounds: Sequence[Round], telling: Telling, index: Index) -> None:
    """A change that cannot be shown (a template half typed, a round half written) is said; the preview goes on."""
    try:
        _refresh(folder, root, [Round(found.path) for found in rounds], telling, index)
    except Exception as error:
        print(printable(f"genreport: not shown yet: {type(error).__name__}: {error}", keep="\n"), file=sys.stderr)


class _Watched:
    """The files of rounds and templates, by their times."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.folders = [resources() / "templates", *(found.path for found in rounds)]
        self.seen = self._times()

    def changed(self) -> bool:
        before, self.seen = self.seen, self._times()
        return before != self.seen

    def _times(self) -> dict[Path, int]:
        files = (file for folder in self.folders for file in folder.rglob("*") if file.is_file())
        found = {}
        for file in files:
            with suppress(FileNotFoundError):  # a recording renames its partial files
                found[file] = file.stat().st_mtime_ns
        return found


def write_docs(stage: Path, rounds: Sequence[Round], pages: Pages, index: Index, steps: _Steps | None = None) -> None:
    """Writes a folder that MkDocs can build: the hand-written docs, and everything of the rounds."""
    steps, home, entries = steps or _Steps(), resources(), {}
    shutil.copytree(home / "docs", stage / "docs", ignore=LEFT_OUT)
    shutil.copy(home / "mkdocs.yml", stage / "mkdocs.yml")
    with bundle.written_meanwhile(stage / "docs" / bundle.NAME):
        for found in rounds:
            entries[found.name] = _write_round(found, pages, stage / "docs" / "rounds" / found.name, steps)
    steps.done("bundle")
    newest = sorted(rounds, key=lambda found: -found.head.started_unix_us)
    _write(stage / "docs" / "rounds" / "index.md", index([entries[found.name] for found in newest]))


def _write_round(found: Round, pages: Pages, folder: Path, steps: _Steps) -> str:
    """Writes everything of a round below its folder; gives its entry in the list of rounds."""
    from genreport.site.derivations import write_derivations
    from genreport.site.listings import write_listings
    from genreport.site.sources import further_pages, sources_index

    content, templates = pages(found), resources() / "templates"
    steps.done("pages")
    listed = write_listings(found, folder, templates, content.ledger)
    steps.done("listings")
    write_derivations(found.name, content.ledger, listed, folder, templates)
    _write_manifest(folder / MANIFEST, found.name, content.ledger, {entry.file: entry.fact() for entry in listed})
    _write(folder / CARDS, cards.script(found.name, content.ledger, listed, content.shown))
    for name, text in (("index.md", sources_index(found.name, listed)), *further_pages(found.name, listed, templates)):
        _write(folder / SOURCES / name, text)
    for path, text in (*content.pages, *content.files):
        _write(folder / path, text)
    steps.done("derivations")
    return content.entry


def checkout(folder: Path | None = None) -> Path | None:
    """The working directory if it is a checkout of this project."""
    folder = folder or Path.cwd()
    known = ("mkdocs.yml", "docs", "templates", "generator/genreport/__init__.py")
    return folder if all((folder / name).exists() for name in known) else None


def resources() -> Path:
    """Where docs/, templates/ and mkdocs.yml lie: in the wheel, else in the checkout the package was imported from."""
    package = Path(__file__).parents[1]
    bundled = package / "_bundle"
    return bundled if bundled.is_dir() else package.parents[1]


def _mkdocs_build(stage: Path, rounds: Sequence[Round]) -> None:
    """One process for MkDocs: its logging, warnings and working directory stay its own.

    Never with --quiet, under which --strict counts no warning.
    """
    command = [*_mkdocs(), "build", "--strict", "--site-dir", str(stage.resolve() / "site")]
    done = subprocess.run(command, cwd=stage, env=_environment(rounds), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        said = [line for line in lines if line.startswith(("WARNING", "ERROR"))] or lines[-3:] or ["no message"]
        raise BuildError("; ".join(said[:5]), where="mkdocs", cure="the old site stays")


def _mkdocs() -> list[str]:
    return [sys.executable, "-m", "mkdocs"]


def _environment(rounds: Sequence[Round] = ()) -> dict[str, str]:
    """Equal rounds give equal bytes: the date in the pages is that of the last seal."""
    sealed = [found.seal.finished_unix_us for found in rounds if found.sealed]
    started = [found.head.started_unix_us for found in rounds]
    epoch = max(sealed or started, default=0) // 1_000_000
    return {**os.environ, "NO_MKDOCS_2_WARNING": "1", "SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}


def _refuse_names(rounds: Sequence[Round]) -> None:
    if not rounds:
        raise BuildError("no round given", cure="name the folder that `genreport run --out` wrote")
    names = [found.name for found in rounds]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise BuildError(f"two rounds are called {twice!r}", cure="rename one of the folders")
    for name in names:
        if name.startswith(".") or name == "index.md":
            raise BuildError(f"a round cannot be called {name!r}", cure="rename its folder")


def _refuse_target(site: Path) -> None:
    """What this program did not build it does not replace."""
    if site.is_file() or (site.is_dir() and any(site.iterdir()) and not stamp.read(site)):
        raise BuildError("not a site that genreport built", where=str(site), cure="name another folder with --site")


def _swap(new: Path, place: Path) -> None:
    """Puts a folder in another's place by renaming; should that fail halfway, the old one goes back."""
    old = new.with_name(f"{new.name}.old")
    if place.exists():
        place.rename(old)
    try:
        new.rename(place)
    except OSError:
        if old.exists():
            old.rename(place)
        raise


def _publish_docs(stage: Path, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".genreport-", dir=home) as near:  # a rename needs one file system
        shutil.move(stage / "docs" / "rounds", Path(near) / "rounds")
        _swap(Path(near) / "rounds", home / "docs" / "rounds")
    shutil.copy(stage / "docs" / bundle.NAME, home / "docs" / bundle.NAME)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _write_manifest(path: Path, name: str, ledger: Ledger, files: dict[str, dict]) -> None:
    """Figure by figure: all of them as plain data may be more than the memory holds beside the ledger."""
    dumped = partial(json.dumps, ensure_ascii=False, separators=(",", ":"))
    head = dumped(ledger.manifest(name, files, used=())).removesuffix("]}")
    with path.open("w", encoding="utf-8") as file:
        file.write(head)
        for place, q in enumerate(ledger):
            file.write("," * (place > 0) + dumped(plain(q)))
        file.write("]}\n")


class _Steps:
    """Seconds spent in each part of a build."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def done(self, name: str) -> None:
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
