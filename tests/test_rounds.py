"""A round that was cut short, damaged or made up: told in a line, never taken for a sound one."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compose import Engine, compose_round, sweep
from genreport.cli import main
from genreport.errors import RoundError
from genreport.records import Failure, LaunchFacts, LevelFacts, Request, RoundHead, Shape
from genreport.rounds import PLAN, Round, RoundWriter, check, digest, packed, verified
from genreport.rounds.files import dumped

LEVEL = "levels/concurrency/vllm/c1/r1"
SAMPLES = b'{"format":"genreport-samples/1","period_us":1,"series":["a"]}\n'
HEAD = RoundHead(name="x", tool="x", started_unix_us=0, redaction=[], planned=["t/e/c1/r1"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    engines = [Engine("vllm"), Engine("llama", "llamacpp")]
    return compose_round(tmp_path / "round", engines=engines, tests=[sweep(1)], repeats=1).path


def seal(path: Path) -> None:
    """Hashes everything anew, as whoever made a round up would."""
    for facts in path.glob("levels/*/*/*/*/facts.json"):
        told = json.loads(facts.read_bytes())
        for name in told["files"]:
            told["files"][name] = digest((facts.parent / name).read_bytes()).model_dump()
        facts.write_text(json.dumps(told))
    RoundWriter(path).seal(0)


def change(file: Path, **fields: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_bytes()) | fields))


def findings(path: Path) -> list[str]:
    found = list(check(path))
    assert all("\n" not in finding for finding in found)
    return [finding.removeprefix(f"{path}/") for finding in found]


def test_a_composed_round_is_sound(path: Path) -> None:
    assert findings(path) == []
    seal(path)
    assert findings(path) == []
    assert verified(path).name == "round"


# ---- ids and folders


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        (f"{LEVEL}/facts.json", {"test": "../../x"}),
        (f"{LEVEL}/facts.json", {"engine": "a/b"}),
        (f"{LEVEL}/facts.json", {"level": "c1\n"}),
        (f"{LEVEL}/facts.json", {"launch": "../vllm/1"}),
        (f"{LEVEL}/facts.json", {"repeat": 0}),
        (f"{LEVEL}/facts.json", {"files": {"../../../plan.yaml": {"sha256": "", "bytes": 0}}}),
        (f"{LEVEL}/facts.json", {"a\nb": 1}),
        ("launches/vllm/1/launch.json", {"engine": ".."}),
        ("launches/vllm/1/launch.json", {"model_facts": "models/../../x.json"}),
        ("machine.json", {"ceilings": {"../x": {}}}),
    ],
)
def test_an_id_that_is_no_id_is_refused_in_one_line(path: Path, file: str, fields: dict[str, Any]) -> None:
    change(path / file, **fields)
    RoundWriter(path).seal(0)
    assert [finding.split(":")[0] for finding in findings(path)] == [file]
    result = CliRunner().invoke(main, ["build", str(path), "--site", str(path.parent / "site")])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)


def test_a_head_that_plans_what_is_no_level_is_refused(path: Path) -> None:
    change(path / "round.json", planned=["../../x/r1"])
    with pytest.raises(RoundError, match=r"round\.json: planned/0"):
        Round(path)


def test_facts_in_a_folder_that_is_not_theirs_are_named(path: Path) -> None:
    change(path / LEVEL / "facts.json", level="c2")
    seal(path)
    assert findings(path) == [f"{LEVEL}/facts.json: is of concurrency/vllm/c2/r1 and does not belong here"]
    with pytest.raises(RoundError, match="does not belong here"):
        verified(path)


def test_a_launch_in_a_folder_that_is_not_its_own_is_named(path: Path) -> None:
    change(path / "launches/llama/1/launch.json", test="concurrency")
    seal(path)
    told = "launches/llama/1/launch.json: is of llama+concurrency and does not belong here"
    assert findings(path) == [told]


def test_a_level_of_another_engines_launch_or_of_none_is_named(path: Path) -> None:
    change(path / LEVEL / "facts.json", launch="llama/1")
    change(path / "levels/concurrency/llama/c1/r1/facts.json", launch="llama/9")
    seal(path)
    assert findings(path) == [
        f"{LEVEL}/facts.json: the round has no launch llama/1 of vllm",
        "levels/concurrency/llama/c1/r1/facts.json: the round has no launch llama/9 of llama",
    ]


# ---- contents


@pytest.mark.parametrize(
    ("file", "data", "told"),
    [
        ("samples.jsonl", b"", "the first line is no SamplesHead"),
        ("samples.jsonl", SAMPLES.replace(b"/1", b"/2"), "the first line is no SamplesHead"),
        ("samples.jsonl", SAMPLES + b"[1,2]\n[1]\n", "not a sample"),
        ("samples.jsonl", SAMPLES + b'[1,"x"]\n', "not a sample"),
        ("samples.jsonl", SAMPLES + b"[1,", "not JSON"),
        ("requests.jsonl", b'{"index": 0}\n', "Field required"),
        ("before.prom.gz", b"no gzip", "broken gzip"),
        ("after.prom.gz", packed("x" * 1000)[:-9], "broken gzip"),
        ("engine.log.gz", packed("x")[:12] + b"\xff" + packed("x")[13:], "broken gzip"),
    ],
)
def test_a_sealed_file_that_does_not_hold_what_its_name_says_is_named(
    path: Path, file: str, data: bytes, told: str
) -> None:
    (path / LEVEL / file).write_bytes(data)
    seal(path)
    (finding,) = findings(path)
    assert finding.startswith(f"{LEVEL}/{file}")
    assert told in finding


@pytest.mark.parametrize("line", ["[1]", "[1,[[0,1,2]]]", '[1,[[0,1,2,"sk-x"]]]', "[1,5]", "{}", "[[]]"])
def test_slots_are_four_whole_numbers_each(path: Path, line: str) -> None:
    folder = "levels/concurrency/llama/c1/r1"
    (path / folder / "slots.jsonl").write_text('{"format":"genreport-slots/1"}\n[1,[[0,1,2,3]]]\n' + line + "\n")
    seal(path)
    (finding,) = findings(path)
    assert finding.startswith(f"{folder}/slots.jsonl:3: not a sample")


def with_gpu(path: Path, text: str) -> None:
    (path / LEVEL / "gpu.csv").write_text(text)
    facts = path / LEVEL / "facts.json"
    change(facts, files=json.loads(facts.read_bytes())["files"] | {"gpu.csv": {"sha256": "", "bytes": 0}})
    seal(path)


def test_gpu_samples_are_stamped_lines_whatever_the_driver_says(path: Path) -> None:
    with_gpu(path, "t_us, index, power.draw [W]\n7, 0, 71.20\n9, Unable to determine the device handle\n")
    assert findings(path) == []
    with_gpu(path, "t_us, index, power.draw [W]\n0, 71.20\n\nx, 1\n")
    assert findings(path) == [f"{LEVEL}/gpu.csv:4: does not begin with a time"]
    with_gpu(path, "index\n")
    assert findings(path) == [f"{LEVEL}/gpu.csv:1: the first column is not t_us"]


@pytest.mark.parametrize("plan", ["a: [", "- 1\n", "a: \x00", "a: 2026-13-45\n", "{" * 5000])
def test_a_plan_that_can_not_be_read_is_a_finding_and_no_traceback(path: Path, plan: str) -> None:
    (path / "seal.json").unlink()
    (path / PLAN).write_text(plan)
    assert [finding.split(":")[0] for finding in findings(path)[1:]] == [PLAN]
    with pytest.raises(RoundError, match=PLAN):
        _ = Round(path).plan


def test_several_faults_are_all_told(path: Path) -> None:
    (path / "machine.json").write_text("{}")
    (path / LEVEL / "before.prom.gz").write_bytes(b"x")
    (path / "launches/vllm/1/start.log.gz").write_bytes(b"x")
    told = "\n".join(findings(path))
    for part in ("machine.json: cpu", "machine.json: changed", "before.prom.gz: broken", "start.log.gz: broken",
                 "before.prom.gz: changed since it was sealed", "before.prom.gz: changed since the level"):  # fmt: skip
        assert part in told


def test_a_seal_that_is_none_is_a_finding(path: Path) -> None:
    (path / "seal.json").write_text("[" * 10_000)
    assert [finding.split(":")[0] for finding in findings(path)] == ["seal.json"]


# ---- writing


def test_half_written_files_are_neither_sealed_nor_evidence(path: Path) -> None:
    for part in ("machine.json.part", f"{LEVEL}/samples.jsonl.part"):
        (path / part).write_text("half")
    assert not [file for file in Round(path).evidence() if file.endswith(".part")]
    assert "machine.json.part: not in the seal" in findings(path)
    seal(path)
    assert not list(path.rglob("*.part"))
    assert findings(path) == []


def facts_of(id: str, **fields: Any) -> dict[str, Any]:
    return {
        "test": id, "kind": "length", "engine": id, "level": id, "repeat": 1, "launch": f"{id}/1",
        "shape": Shape(input=1, output=1), "concurrency": 1, "requests": 1, "warmup": 0, "seed": 0, "sampling": {},
        "origin_unix_us": 0, "before_us": 0, "after_us": 0,
        "client": {"lag_period_us": 1, "lag_us": [], "cpu_us": 0, "wall_us": 0}, **fields,
    }  # fmt: skip


def test_a_level_seals_no_half_written_file(tmp_path: Path) -> None:
    level = RoundWriter(tmp_path).level("t/e/c1/r1")
    level.text("samples.jsonl", "x")
    (level.path / "after.prom.gz.part").write_text("half")
    assert sorted(level.seal(facts_of("t")).files) == ["requests.jsonl", "samples.jsonl"]


def test_what_stands_in_the_way_of_a_new_round_is_only_what_no_round_left(tmp_path: Path) -> None:
    writer = RoundWriter(tmp_path / "round")
    assert not writer.blocked
    writer.path.mkdir()
    for name in ("plan.yaml.part", "round.json.part"):
        (writer.path / name).write_text("half")
    assert not writer.blocked
    (writer.path / "plan.yaml").write_text("mine")
    assert writer.blocked
    assert RoundWriter(tmp_path / "round" / "plan.yaml").blocked


def test_a_round_begins_with_both_of_its_files(tmp_path: Path) -> None:
    RoundWriter(tmp_path).head(HEAD, "plan: 1\n")
    assert sorted(os.listdir(tmp_path)) == ["plan.yaml", "round.json"]


def hide(value: Any) -> Any:
    """A redactor of the word `secret`, wherever it stands."""
    return json.loads(json.dumps(value).replace("secret", "HID"))


def test_numbers_stand_on_one_line_and_brackets_in_a_text_stay_as_they_are() -> None:
    given = LaunchFacts(engine="e", kind="openai", model="m", url="u", started_unix_us=1,
                        command=["--sizes", "[ 1,  2 ]", "[\n 3\n]"], endpoints={"sizes": [1, 2]})  # fmt: skip
    written = dumped(given)
    assert LaunchFacts.model_validate_json(written) == given
    assert b'"sizes": [1, 2]' in written


def test_every_text_of_a_record_is_redacted_and_no_id(tmp_path: Path) -> None:
    writer = RoundWriter(tmp_path, hide)
    writer.head(HEAD.model_copy(update={"planned": ["secret/e/c1/r1"], "name": "secret"}), "plan: secret\n")
    found = Round(tmp_path)
    assert (found.head.planned, found.head.name, found.plan) == (["secret/e/c1/r1"], "HID", {"plan": "HID"})


def test_texts_are_redacted_before_they_are_cut() -> None:
    asked = {"index": 0, "seed": 0, "asked_input": 1, "asked_output": 1, "due_us": 0, "end_us": 0}
    failure = Failure(kind="http", message="x" * 1997 + "secret")
    request = Request(**asked, text="y" * 65_533 + "secret", finish="secret", failure=failure, server={"secret": 1})
    shown = request.published(hide)
    assert shown.text == "y" * 65_533 + "HID"
    assert shown.failure.message == "x" * 1997 + "HID"
    assert (shown.finish, shown.server) == ("HID", {"HID": 1})
    assert shown.failure.kind == "http"


def test_remarks_are_cut_and_ids_are_kept() -> None:
    told = {"sampling": {"stop": "secret"}, "remarks": ["died: secret" + "x" * 3000], "files": {}}
    shown = LevelFacts(**facts_of("secret", **told)).published(hide)
    assert (shown.key, shown.launch, shown.sampling) == ("secret/secret/secret/r1", "secret/1", {"stop": "HID"})
    assert shown.remarks[0].startswith("died: HIDx")
    assert len(shown.remarks[0]) == 2000


def test_numbers_sampled_here_do_not_pass_the_redactor(tmp_path: Path) -> None:
    level = RoundWriter(tmp_path, lambda _: "redacted").level("t/e/c1/r1")
    level.text("samples.jsonl", "[12345678,1]\n")
    level.text("engine.log.gz", "secret")
    level.abandon()
    assert (level.path / "samples.jsonl").read_text() == "[12345678,1]\n"
    assert gzip.decompress((level.path / "engine.log.gz").read_bytes()) == b"redacted"
