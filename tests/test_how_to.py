"""The how-to pages hold commands and files that work: what can be executed here is, everything else is parsed."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner

from genreport.cli import main

PAGES = sorted(Path(__file__).parents[1].glob("docs/how-to/*.md"))
OURS = re.compile(r"(?:^|[\s/'\";])genreport ((?:plan )?[a-z]+\b[^'\n|>;&]*)")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def plans(page: Path) -> Iterator[str]:
    """Every plan on a page, those inside a ConfigMap included."""
    for block in blocks(page, "yaml"):
        for document in yaml.safe_load_all(block):
            if document.get("plan") == 1:
                yield block
            yield from (document.get("data") or {}).values() if document.get("kind") == "ConfigMap" else ()


def commands(page: Path) -> Iterator[list[str]]:
    """Words behind `genreport` of every command of a page, in a shell block or inside a job's file."""
    for block in (*blocks(page, "bash"), *blocks(page, "yaml")):
        for line in block.splitlines():
            if not line.lstrip().startswith("#") and "pip install" not in line:
                for found in OURS.findall(re.sub(r"\$\([^)]*\)", "WORD", line.split(" #")[0])):
                    yield shlex.split(re.sub(r"(\d)?$", "", found.strip()) if found.endswith(" 2") else found)


def parsed(words: list[str]) -> click.Command:
    """The command that would run; UsageError where it or an option is none of ours."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_parser(click.Context(command)).parse_args(list(words))
    return command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_genreport_command_of_a_page_exists_with_its_options(page):
    for words in commands(page):
        try:
            parsed(words)
        except click.UsageError as error:
            pytest.fail(f"{page.name}: genreport {shlex.join(words)}: {error.message}")


def test_a_page_per_engine_and_way_is_there_with_commands_to_check():
    found = {page.stem: list(commands(page)) for page in PAGES}
    for name in ("vllm", "llama-cpp", "tgi", "sglang", "ollama", "gpu-over-ssh", "docker-compose", "kubernetes-job"):
        assert found[name], name
    assert ["plan", "check", "plan.yaml", "--elsewhere"] in found["gpu-over-ssh"]
    assert ["run", "plan/plan.yaml", "--out", "runs/job", "--resume", "--json"] in found["kubernetes-job"]


def test_a_command_that_does_not_exist_is_noticed():
    with pytest.raises(click.UsageError):
        parsed(["run", "plan.yaml", "--outt", "x"])
    with pytest.raises(AssertionError):
        parsed(["measure", "plan.yaml"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_plan_of_a_page_passes_plan_check(page, tmp_path):
    for number, text in enumerate(plans(page)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, "utf-8")
        result = CliRunner().invoke(main, ["plan", "check", str(file), "--elsewhere"])
        assert result.exit_code == 0, f"{page.name}: {result.output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_shell_block_is_shell(page):
    for block in blocks(page, "bash"):
        checked = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, f"{page.name}: {checked.stderr}"


def test_the_compose_file_starts_an_engine_and_a_runner_on_cores_of_their_own():
    page = next(page for page in PAGES if page.stem == "docker-compose")
    services = yaml.safe_load(blocks(page, "yaml")[0])["services"]
    assert services["genreport"]["depends_on"] == ["engine"]
    assert services["engine"]["cpuset"] != services["genreport"]["cpuset"]
    port = re.search(r"--port (\d+)", services["engine"]["command"])[1]
    assert f"http://engine:{port}" in blocks(page, "yaml")[1]


def test_the_job_mounts_what_its_command_names():
    page = next(page for page in PAGES if page.stem == "kubernetes-job")
    files = {each["kind"]: each for each in yaml.safe_load_all(blocks(page, "yaml")[0])}
    spec = files["Job"]["spec"]["template"]["spec"]
    mounted = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounted == {"plan": "/srv/genreport/plan", "runs": "/srv/genreport/runs"}
    assert spec["volumes"][0]["configMap"]["name"] == files["ConfigMap"]["metadata"]["name"]
    assert (
        spec["volumes"][1]["persistentVolumeClaim"]["claimName"] == files["PersistentVolumeClaim"]["metadata"]["name"]
    )
    plan = yaml.safe_load(files["ConfigMap"]["data"]["plan.yaml"])
    assert plan["engines"][0]["api_key_env"] == spec["containers"][0]["env"][0]["name"]


@pytest.mark.parametrize("name", ["sglang", "tgi", "ollama", "gpu-over-ssh", "docker-compose", "kubernetes-job"])
def test_a_page_that_met_no_real_server_says_so(name):
    page = next(page for page in PAGES if page.stem == name)
    head = " ".join(page.read_text("utf-8").split("```")[0].split())
    assert re.search(r"[Nn]ot tried against a real|not run|not applied", head)
