"""Work shared out among cores."""

from __future__ import annotations

import os

import pytest

from genreport import cores


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux pins processes to cores")
def test_no_more_processes_work_than_this_one_has_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert list(cores.each(lambda _: os.getpid(), range(4))) == [os.getpid()] * 4
