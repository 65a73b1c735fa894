"""`genreport figures`: every figure as a row or an object, filtered by how its id starts, into a pipe that may close."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from compose import compose_round, sweep
from genreport.cli import main
from genreport.export import COLUMNS, chosen, lines
from genreport.figures import compute
from genreport.provenance import Ledger, Quantity, Tally
from genreport.rounds import Round


@pytest.fixture(scope="module")
def round_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "composed"
    compose_round(path, tests=(sweep(1, 2),), repeats=1)
    return path


@pytest.fixture(scope="module")
def ledger(round_path: Path) -> Ledger:
    return compute(Round(round_path)).ledger


def call(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["figures", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_every_figure_is_a_row_and_a_curve_one_for_each_point(round_path, ledger):
    found = rows(call(round_path))
    assert tuple(found[0]) == COLUMNS
    points = sum(len(q.value) if isinstance(q.value, tuple) else 1 for q in ledger)
    assert len(found) == points
    ecdf = [row for row in found if row["id"].startswith("concurrency.vllm-bf16.c1.itl_ecdf[")]
    assert [float(row["value"]) for row in ecdf] == list(ledger["concurrency.vllm-bf16.c1.itl_ecdf"].value)


def test_a_row_holds_the_unrounded_value_and_where_it_came_from(round_path, ledger):
    q = ledger["concurrency.vllm-bf16.c1.ttft.p50"]
    (row,) = (row for row in rows(call(round_path, q.id)) if row["id"] == q.id)
    assert float(row["value"]) == q.value
    assert (row["unit"], row["n"], row["formula"]) == ("s", str(q.n), "percentile(ttft_s, 50)")
    assert row["files"].split() == sorted(q.files())


def test_a_missing_figure_has_no_value_and_a_reason(round_path):
    (row,) = rows(call(round_path, "concurrency.vllm-bf16.c1.elasticity"))
    assert row["value"] == ""
    assert row["reason"] == "no level before it"


def test_json_is_one_list_with_the_same_figures(round_path, ledger):
    found = json.loads(call(round_path, "--format", "json"))
    assert [figure["id"] for figure in found] == [q.id for q in ledger]
    assert all(tuple(figure) == COLUMNS for figure in found)
    assert [figure["value"] for figure in found] == [
        list(q.value) if isinstance(q.value, tuple) else q.value for q in ledger
    ]


def test_an_empty_choice_is_still_a_list():
    assert json.loads("".join(lines([], "json"))) == []


def test_only_ids_that_start_so_are_exported(round_path):
    found = rows(call(round_path, "machine.", "engine.llamacpp-q4.kv"))
    assert {row["id"].split(".")[0] for row in found} == {"machine", "engine"}
    assert all(row["id"].startswith(("machine.", "engine.llamacpp-q4.kv")) for row in found)


def test_a_beginning_that_no_figure_has_is_one_line_with_near_ones(round_path):
    output = call(round_path, "concurrency.vllm-bf61.c1", code=1)
    assert output.count("\n") == 1
    assert "no figure starts with 'concurrency.vllm-bf61.c1'; did you mean concurrency.vllm-bf16.c1" in output


def test_the_counts_of_the_evidence_page_are_exported_when_they_are_named(round_path):
    found = {row["id"]: row["value"] for row in rows(call(round_path, "evidence"))}
    assert found["evidence.failures"] == "0.0" or found["evidence.failures"] == "0"


def test_a_limit_can_be_asked_for(round_path):
    found = rows(call(round_path, "test.concurrency.slo", "--slo", "ttft_p95=100ms"))
    assert "test.concurrency.slo.given-ttft-p95-100ms.vllm-bf16.load" in {row["id"] for row in found}


def test_a_file_gets_the_same_text_and_nothing_is_printed(round_path, tmp_path):
    assert call(round_path, "machine", "-o", tmp_path / "figures.csv") == ""
    assert (tmp_path / "figures.csv").read_text("utf-8") == call(round_path, "machine")


def test_a_reader_that_goes_away_gets_what_it_wanted_and_no_word_of_it(round_path):
    code = f"from genreport.cli import main; main(['figures', {str(round_path)!r}])"
    piped = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert piped.stdout.readline() == b"id,value,unit,n,formula,reason,notes,files\n"
    piped.stdout.close()
    assert piped.stderr.read() == b""
    piped.stderr.close()
    piped.wait()


def test_text_that_holds_a_separator_stays_in_its_cell():
    q = Quantity("a.b", None, "s", 'f(x, "y")\nz', reason='why, "so"')
    (row,) = rows("\n".join(lines([q], "csv")))
    assert (row["formula"], row["reason"]) == ('f(x, "y")\nz', 'why, "so"')


def test_without_a_prefix_all_are_chosen():
    ledger = Ledger()
    ledger.add(Quantity("a.b", 1.0, "s", "tally", sources=(Tally("x"),)))
    assert [q.id for q in chosen(ledger, (), "round")] == ["a.b"]
