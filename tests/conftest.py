import pytest
from hypothesis import settings

# two cores shared with a browser: a slow example is no failure; the same examples each time
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
