"""`--slo`: another limit answered from what was measured, with its text as its source, and checked as every figure is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from compose import compose_round, sweep
from genreport.audit import audit
from genreport.cli import main
from genreport.errors import OptionError
from genreport.evaluate import Evidence, recompute
from genreport.explain import explain
from genreport.figures import compute, limits
from genreport.figures.latency import STATISTICS
from genreport.provenance import Given
from genreport.publish import pages_of, publish
from genreport.rounds import Round

SLO = {"id": "slow", "figure": "ttft", "percentile": "p50", "below_ms": 500}


@pytest.fixture(scope="module")
def round(tmp_path_factory: pytest.TempPathFactory) -> Round:
    path = tmp_path_factory.mktemp("limits") / "composed"
    return compose_round(path, tests=(sweep(1, 2, 4, 8),), repeats=1, slos=[SLO])


@pytest.mark.parametrize(
    ("text", "value"),
    [("ttft_p99=800ms", 0.8), ("itl_p50=0.05s", 0.05), ("e2el_p95=30s", 30), (" tpot_p90 = 12.5 ms ", 0.0125)],
)
def test_a_limit_is_a_percentile_a_number_and_a_unit(round, text, value):
    (limit,) = limits.read([text])
    ledger = compute(round, [limit]).ledger
    q = ledger[f"test.concurrency.slo.{limit.name}.limit"]
    assert q.value == pytest.approx(value, rel=1e-12)
    assert isinstance(q.sources[0], Given)


@pytest.mark.parametrize("figure", limits.LATENCIES)
def test_every_percentile_that_is_computed_can_be_asked_for(round, figure):
    known = [statistic for statistic in STATISTICS[figure][1] if statistic != "mean"]
    given = limits.read([f"{figure}_{percentile}=100s" for percentile in known])
    ledger = compute(round, given).ledger
    loads = [ledger[f"test.concurrency.slo.{limit.name}.vllm-bf16.load"] for limit in given]
    assert [load.value for load in loads] == [8] * len(known)
    assert "p95" in known


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ttft", "not a percentile of a latency, a number, and ms or s"),
        ("ttft_p99=800", "not a percentile of a latency, a number, and ms or s"),
        ("ttft_p99=-1s", "not a percentile of a latency, a number, and ms or s"),
        ("ttft_p99=1e3ms", "not a percentile of a latency, a number, and ms or s"),
        ("ttft_p42=1s", "no p42 of ttft is computed; known are p50, p90, p95, p99"),
        ("ttft_mean=1s", "no mean of ttft is computed"),
        ("speed_p99=1s", "no latency 'speed'; known are ttft, tpot, itl, e2el"),
        ("ttft_p99=0ms", "met by nobody"),
    ],
)
def test_a_limit_that_cannot_be_read_is_one_line_with_an_example(text, said):
    with pytest.raises(OptionError, match=re.escape(said)) as caught:
        limits.read([text])
    assert str(caught.value).endswith("write for example --slo ttft_p99=800ms")
    assert "\n" not in str(caught.value)


def test_a_control_sign_in_it_stays_out_of_the_terminal():
    with pytest.raises(OptionError) as caught:
        limits.read(["\x1b[31mred=1s"])
    assert "\x1b" not in str(caught.value)


def test_the_command_line_exits_with_2_before_it_looks_at_the_round(tmp_path):
    for command in ("build", "explain", "figures", "guide"):
        result = CliRunner().invoke(main, [command, str(tmp_path / "none"), "--slo", "ttft_p42=1s"])
        assert result.exit_code == 2, (command, result.output)
        assert result.output.count("\n") == 1


def test_the_same_limit_twice_is_one_and_an_equal_one_of_the_plan_stays(round):
    given = limits.read(["ttft_p50=500ms", "ttft_p50=500ms"])
    ledger = compute(round, given).ledger
    found = [q.id for q in ledger if q.id.endswith(".limit")]
    assert found == ["test.concurrency.slo.given-ttft-p50-500ms.limit", "test.concurrency.slo.slow.limit"]
    loads = [ledger[f"test.concurrency.slo.{name}.vllm-bf16.load"].value for name in ("given-ttft-p50-500ms", "slow")]
    assert loads[0] == loads[1]


def test_without_a_plan_of_limits_a_given_one_is_answered(tmp_path):
    plain = compose_round(tmp_path / "plain", tests=(sweep(1, 2, 4),), repeats=1)
    text = _words(dict(pages_of(plain, limits.read(["ttft_p99=75ms"])).pages)["guide/index.md"])
    assert "p99 TTFT under 75 ms" in text


def test_the_second_path_reads_it_from_its_own_text(round):
    given = limits.read(["itl_p95=25ms"])
    ledger = compute(round, given).ledger
    plain = json.loads(json.dumps(ledger.manifest("composed", {})))
    figure = next(f for f in plain["figures"] if f["id"] == "test.concurrency.slo.given-itl-p95-25ms.limit")
    assert figure["sources"] == [
        {"type": "given", "option": "--slo", "text": "itl_p95=25ms", "pattern": r"=([\d.]+)ms$"}
    ]
    assert recompute(figure, Evidence(lambda file: b"", {}), {}) == figure["value"] == 0.025


def test_explain_says_where_it_was_given(round):
    ledger = compute(round, limits.read(["ttft_p99=800ms"])).ledger
    told = "\n".join(explain(round, ledger, "test.concurrency.slo.given-ttft-p99-800ms.limit"))
    assert "given    when the site was built: --slo ttft_p99=800ms" in told


def test_front_page_and_guide_answer_it(round):
    pages = dict(pages_of(round, limits.read(["ttft_p99=75ms"])).pages)
    assert "p99 TTFT under 75 ms, asked when this site was built: " in _words(pages["index.md"])
    guide = _words(pages["guide/index.md"])
    assert guide.index("p99 TTFT under 75 ms") < guide.index("p50 TTFT under 500 ms")


def test_a_limit_that_nobody_keeps_says_so_on_the_front_page(round):
    front = _words(dict(pages_of(round, limits.read(["ttft_p99=1ms"])).pages)["index.md"])
    assert "no engine keeps it, not even at its lowest load" in front


def _words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", text).replace("\u202f", " ").split())


# ------------------------------------------------------------------------------------- a built site


@pytest.fixture(scope="module")
def site(round: Round, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([round.path], folder / "site", limits.read(["ttft_p99=75ms"]))
    return folder / "site"


@pytest.mark.slow
def test_the_audit_passes_a_site_with_a_given_limit(site):
    assert audit(site).failures == []


@pytest.mark.slow
def test_the_derivation_shows_the_option_and_its_text(site):
    pages = (site / "rounds" / "composed" / "figures").glob("*.html")
    text = next(text for page in pages if "--slo" in (text := page.read_text("utf-8")))
    assert "given when the site was built" in text
    assert "<code>--slo ttft_p99=75ms</code>" in text


@pytest.mark.slow
def test_another_text_of_the_limit_in_the_manifest_fails(site):
    path = site / "rounds" / "composed" / "provenance.json"
    before = path.read_text("utf-8")
    path.write_text(before.replace('"text":"ttft_p99=75ms"', '"text":"ttft_p99=76ms"'), "utf-8")
    try:
        assert any("in the manifest" in failure for failure in audit(site).failures)
    finally:
        path.write_text(before, "utf-8")


@pytest.mark.slow
def test_the_same_limits_find_the_site_up_to_date_and_others_build_it_again(round, site, monkeypatch):
    monkeypatch.chdir(site.parent)
    assert not publish([round.path], site, limits.read(["ttft_p99=75ms"])).fresh
    assert publish([round.path], site.parent / "other", limits.read(["ttft_p99=76ms"])).fresh
    assert not publish([round.path], site.parent / "other", limits.read(["ttft_p99=76ms"])).fresh
    assert publish([round.path], site.parent / "other").fresh
