"""The recorded rounds against each other: one repeated with nothing changed, one with one flag changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from genreport.cli import main

RUNS = Path(__file__).parents[1] / "runs"
pytestmark = pytest.mark.slow


def difference(old: str, new: str) -> dict:
    done = CliRunner().invoke(main, ["diff", str(RUNS / old), str(RUNS / new), "--format", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_round_recorded_twice_shows_no_change():
    found = difference("round2", "round2b")
    verdicts = [f["verdict"] for f in found["figures"] if f["figure"] != "goodput"]  # at 0 req/s there is no ratio
    assert len(verdicts) >= 80
    assert set(verdicts) <= {"equivalent", "inconclusive"}
    assert not {e["topic"] for e in found["environment"]} & {"flags", "env", "sampling", "engine", "model"}


def test_two_slots_in_place_of_sixteen_are_found_and_named():
    found = difference("round2", "round3")
    verdicts = {(f["level"], f["figure"]): f["verdict"] for f in found["figures"]}
    assert verdicts["c16", "output_throughput"] == "regressed"
    assert verdicts["c16", "ttft.p50"] == "regressed"
    assert verdicts["c16", "tpot.p50"] == "improved"
    flags = [(e["scope"], e["name"], e["old"], e["new"]) for e in found["environment"] if e["topic"] == "flags"]
    assert flags == [("llamacpp-q4", "-np", "16", "2")]


def test_the_registered_hypothesis_on_the_repetition_penalty_is_judged():
    (said,) = difference("round1", "round2")["hypotheses"]
    assert said.startswith("hypothesis repetition-penalty: undecided")
