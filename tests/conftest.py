import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# two cores shared with a browser: a slow example is no failure; the same examples each time
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture(scope="session", autouse=True)
def _unsynced() -> Iterator[None]:
    """Composed rounds are of hundreds of files, and waiting for the disk after each is half of composing them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _heard() -> None:
    """A shell may have started the tests in the background, where an interrupt is ignored, also by what they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def port() -> int:
    """A port of this machine that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No round of a test spends ten seconds on the ceiling of the client; a test that wants it sets it."""
    monkeypatch.setattr("genreport.runner.client_ceiling", lambda cores: None)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The site of the committed round, built for the address it is served from."""
    from chromium import ROUND, serving

    site = tmp_path_factory.mktemp("browser") / "site"
    with serving(site, ROUND) as url:
        yield url, site


@pytest.fixture(scope="module")
def browser() -> Iterator:
    """Ends with its module: while it is open, this thread has an event loop, and asynchronous tests fail."""
    from chromium import opened

    with opened() as found:
        yield found


@pytest.fixture
def page(browser) -> Iterator:
    """A fresh page that remembers console errors and every request that left the site."""
    from chromium import watched

    context = browser.new_context()
    yield watched(context)
    context.close()
