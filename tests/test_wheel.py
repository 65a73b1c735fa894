"""The wheel works outside the checkout: an empty folder with a round in it becomes a site."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compose import compose_round

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(CHECKOUT)]
    subprocess.run(build, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_the_wheel_brings_pages_and_templates_but_no_round(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "genreport/_bundle/mkdocs.yml" in names
    assert "genreport/_bundle/templates/concurrency.md" in names
    assert "genreport/_bundle/docs/index.md" in names
    assert not [name for name in names if "/docs/rounds/" in name or name.startswith(("runs/", "tests/"))]


def test_every_page_of_the_docs_is_in_the_wheel(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for page in (CHECKOUT / "docs").glob("*.md"):
        assert f"genreport/_bundle/docs/{page.name}" in names


def test_a_round_in_an_empty_folder_becomes_a_site(wheel, tmp_path):
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel)]
    subprocess.run(pip, check=True, capture_output=True)
    work = tmp_path / "work"
    compose_round(work / "runs" / "composed")
    code = "import genreport, sys; print(genreport.__file__); from genreport.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "build", "runs/composed"],
        cwd=work, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stdout, "the installed package, not the checkout's"
    assert (work / "site" / "rounds" / "composed" / "concurrency" / "index.html").is_file()
    assert sorted(path.name for path in work.iterdir()) == ["runs", "site"]
