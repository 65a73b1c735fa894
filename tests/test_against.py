"""The page of a comparison: the sentence on top, what was changed, the table and its filter, the choice then and now."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import audited
from compose import LLAMA, VLLM, Load, Test, compose_round, lengths, sweep
from genreport.audit.names import is_name, vocabulary
from genreport.audit.pages import read_page
from genreport.comparing import Comparison, compare, opened
from genreport.comparing.environment import seal_of
from genreport.comparing.hypotheses import judge
from genreport.diff import lines
from genreport.figures import compute
from genreport.pages import shared_context, write
from genreport.publish import _recomputed
from genreport.records import Ceiling, Failure
from genreport.reports import against
from genreport.reports.against_choices import chosen, crossed
from genreport.rounds import Round

SLOS = [{"id": "snappy", "figure": "ttft", "percentile": "p50", "below_ms": 120}]
CLAIM = {"id": "faster", "text": "it is faster", "figure": "output_throughput", "test": "concurrency",
         "engine": "vllm-bf16", "against_round": "old", "rises_by_more_than": 0.1}  # fmt: skip


def noisy(**factors: float) -> Callable[[str, int, int], tuple[float, float]]:
    """Latencies of the usual engines with 1 % of noise of the repeat; `vllm` and `llama` are multiplied by a factor.

    Another `shift` is another recording of the same.
    """
    shift = int(factors.get("shift", 0))

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        known = next(known for known in (VLLM, LLAMA) if engine.startswith(known.kind))
        wobble = 1 + 0.01 * ((repeat * 7 + c * 3 + shift) % 5 - 2)
        ttft, itl = known.latency(c)
        factor = factors.get("vllm" if known is VLLM else "llama", 1.0)
        return ttft * factors.get("wait", factor) * wobble, itl * factor * wobble

    return latency


def recorded(folder: Path, **facts: object) -> Round:
    return compose_round(folder, **({"tests": (sweep(1, 4, requests=8),), "repeats": 3, "latency": noisy()} | facts))


def pair(folder: Path, old: dict | None = None, new: dict | None = None, **how: object) -> Comparison:
    """Composes two rounds and compares them: `old` and `new` are what differs from the usual one."""
    facts = {"old": old or {}, "new": {"seed": "again"} | (new or {})}
    rounds = [recorded(folder / name, **given) for name, given in facts.items()]
    found = compare(*(compute(one, resampled=True) for one in reversed(rounds)), **how)
    against.borrow(found)
    return found


@pytest.fixture
def compared(tmp_path: Path):
    return partial(pair, tmp_path)


@pytest.fixture(scope="module")
def quicker(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The usual round, and one in which vLLM is faster."""
    return pair(tmp_path_factory.mktemp("quicker"), new={"latency": noisy(vllm=0.7, shift=2)})


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """The usual round recorded twice."""
    return pair(tmp_path_factory.mktemp("again"), new={"latency": noisy(shift=1)})


def markdown(c: Comparison) -> dict[str, str]:
    """Every page of a comparison by its path; nothing on them may be a number without a figure, or an unknown name."""
    shared, judged = shared_context(c.new), judge(c.new, (c,))
    found = {page.path: write(page, c.new.ledger, shared).text for page in against.pages(c, judged)}
    known = "\n".join(vocabulary(figures.round.path) for figures in (c.old, c.new)) + "\nold new"
    for text in found.values():
        seen = read_page(f"<article>{text.split('---', 2)[2]}</article>")
        assert [text for text in seen.loose if text.strip()] == []
        assert [name for name in seen.literals if not is_name(name, known)] == []
    return found


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", text).replace("\u202f", " ").split())


def page(c: Comparison) -> str:
    return words(markdown(c)["against-old/index.md"])


def sentence(c: Comparison) -> str:
    """What stands first, in bold, in the answer."""
    return words(
        re.search(r"<strong>(.*?)</strong>", markdown(c)["against-old/index.md"].split("gr-answer", 1)[1], re.S)[1]
    )


def rows(text: str) -> list[dict[str, str]]:
    """The table's rows by what the filter reads of them."""
    return [dict(re.findall(r'data-(\w+)="([^"]*)"', row)) for row in re.findall(r"<tr (data-verdict[^>]*)>", text)]


# ------------------------------------------------------------------------------------------- the sentence on top


def test_open_loops_are_compared_from_due_and_only_where_requests_come_alike(compared):
    def tests(to_rate: float) -> tuple[Test]:
        ramp = Load("up", 4, requests=24, rate=5, process="ramp", to_rate=to_rate)
        return (Test("arrivals", "open", (Load("q4", 4, requests=24, rate=4), ramp)),)

    text = page(compared({"tests": tests(20)}, {"tests": tests(60), "latency": noisy(vllm=1.5, shift=2)}))
    assert "TTFT p50 from due" in text
    assert (
        "arrivals vllm-bf16 up: not comparable with arrivals vllm-bf16 up, for rate 12.5 → 32.5; to_rate 20.0 → 60.0."
        in text
    )


def test_a_flag_of_one_round_alone_is_a_caution_beside_its_rows(compared):
    c = compared(new={"prefix_hits": 0.6, "latency": noisy(shift=1)})
    text = page(c)
    assert (
        "concurrency vllm-bf16 c4: prefix cache hits in new alone; its TTFT is not compared, for a prefix cache" in text
    )
    assert 'title="compared, with a caution">!</span>' in markdown(c)["against-old/index.md"]
    for format in ("text", "md"):
        said = "\n".join(lines(c, format))
        assert "caution: concurrency/vllm-bf16/c4: prefix cache hits in new alone" in said


def test_requests_that_fail_now_stand_in_the_sentence_beside_what_became_faster(compared):
    def half(engine, level, repeat, index):
        return Failure(kind="http", status=500) if (level, index % 2) == ("c4", 1) else None

    c = compared(new={"latency": noisy(vllm=0.7, shift=2), "failures": half})
    assert "vllm-bf16 became faster" in sentence(c)
    assert "; and 24 of 48 requests of vllm-bf16, llamacpp-q4 fail now, more than before." in sentence(c)
    assert "Failed requests: 12 of 24 at vllm-bf16 c4 (concurrency), before 0 of 24;" in page(c)
    _recomputed(c.new, {c.name: c.old.ledger})


def test_an_engine_that_became_faster_is_named_first_and_the_other_is_not(quicker):
    c = quicker
    assert sentence(c).startswith("vllm-bf16 became faster")
    assert "llamacpp-q4 no change stands out from the noise" in sentence(c)


def test_an_engine_that_became_slower_is_called_slower_whatever_the_figure_s_direction(compared):
    c = compared(new={"latency": noisy(llama=1.5, shift=2)})
    assert sentence(c).startswith("llamacpp-q4 became slower")
    assert "Most regressed" in page(c)


def test_faster_tokens_after_a_longer_wait_are_both_told(compared):
    c = compared(new={"latency": noisy(vllm=0.7, wait=2.0, shift=2), "engines": (VLLM,)}, old={"engines": (VLLM,)})
    assert sentence(c) == "vllm-bf16 became faster in some figures and slower in others."
    assert "Most improved" in page(c)
    assert "Most regressed" in page(c)


def test_two_recordings_of_the_same_are_called_no_change(again):
    c = again
    assert re.match("No change stands out|Nothing became faster or slower", sentence(c))
    assert "The choice of an engine stays what it was" in page(c)
    assert "is found in four of five cases, a smaller one less often" in page(c)


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_are_said_and_no_change_is_claimed(compared, repeats):
    c = compared(new={"latency": noisy(vllm=0.5), "repeats": repeats}, old={"repeats": repeats})
    assert sentence(c).startswith("There are too few repeats for a verdict")
    assert "became" not in sentence(c)


def test_the_same_recording_twice_is_said_and_all_is_equal(tmp_path):
    recorded(tmp_path / "old")
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    c = opened(str(tmp_path / "new"), str(tmp_path / "old"))
    against.borrow(c)
    assert sentence(c).startswith("These are the same recording twice: every figure is equal")
    assert "the very same recording" in page(c)
    assert "Figure by figure" not in page(c)


def test_another_machine_is_a_different_setting_and_nothing_gets_a_verdict(compared):
    c = compared(new={"machine": {"cpu": "Another CPU"}, "latency": noisy(vllm=0.5)})
    assert sentence(c).startswith("The two rounds were measured in different settings")
    assert "another machine: nothing gets a verdict" in page(c)
    assert {row["verdict"] for row in rows(markdown(c)["against-old/index.md"])} == {"not_comparable"}


def test_rounds_without_a_common_level_say_so_and_show_what_each_has(compared):
    c = compared(new={"tests": (sweep(2, 8, requests=8),)})
    assert sentence(c).startswith("The two rounds have no level in common")
    found = page(c)
    assert "Only in new" in found
    assert "Only in old" in found
    assert "Figure by figure" not in found


# ------------------------------------------------------------------------------------------- the choice


def test_a_recommendation_that_changes_is_the_headline(compared):
    slow = {"latency": noisy(vllm=0.4, llama=3.0, shift=2), "slos": SLOS}
    c = compared(old={"slos": SLOS, "latency": noisy(vllm=3.0, llama=0.4)}, new=slow)
    assert sentence(c).startswith("The recommendation changes: ")
    assert "it was llamacpp-q4 and is now vllm-bf16" in sentence(c)
    assert "Faster: vllm-bf16" in page(c)


def test_another_winner_by_less_than_the_margin_is_no_headline(compared):
    engines = (VLLM, replace(VLLM, id="vllm-twin", baseline=False))
    tilt = {"vllm-bf16": 1.0, "vllm-twin": 1.001}

    def latency(flip: bool):
        return lambda e, c, r: tuple(
            v * (1 + 0.01 * (r - 2)) * (2.001 - tilt[e] if flip else tilt[e]) for v in VLLM.latency(c)
        )

    c = compared(
        old={"engines": engines, "latency": latency(False)}, new={"engines": engines, "latency": latency(True)}
    )
    assert {row.case for row in chosen(c)} == {"slight"}
    assert "recommendation" not in sentence(c)
    assert "another name, not beyond the noise in both" in page(c)


def test_the_choice_for_one_user_is_held_against_the_one_before(compared):
    slow = {"slos": SLOS, "latency": noisy(vllm=0.3, llama=2.0, shift=1)}
    c = compared(old={"slos": SLOS, "latency": noisy(vllm=3.0, llama=0.4)}, new=slow)
    assert [(row.case, row.then.winner.engine, row.now.winner.engine) for row in chosen(c) if row.lowest] == [
        ("changed", "llamacpp-q4", "vllm-bf16")
    ]
    assert "for one user it was llamacpp-q4 and is now vllm-bf16" in sentence(c)
    assert re.search(r"one user\s*changes\s*llamacpp-q4", page(c))


def test_a_choice_says_how_many_requests_failed_then_and_now(compared):
    def half(winner: str) -> Callable:
        return lambda engine, level, repeat, index: (
            Failure(kind="http", status=503) if engine == winner and index % 2 else None
        )

    then = {"slos": SLOS, "latency": noisy(vllm=3.0, llama=0.4), "failures": half("llamacpp-q4")}
    now = {"slos": SLOS, "latency": noisy(vllm=0.3, llama=2.0, shift=1), "failures": half("vllm-bf16")}
    c = compared(old=then, new=now)
    failed = "(with 12 of 24 requests failed)"
    assert f"for one user it was llamacpp-q4 {failed} and is now vllm-bf16 {failed}" in sentence(c)
    assert f"C = 1 {failed}" in page(c)
    limit = next(row for row in chosen(c) if row.slo)
    assert [{cell.engine: cell.broke for cell in choice.cells} for choice in (limit.then, limit.now)] == [
        {"vllm-bf16": "", "llamacpp-q4": "other.old.concurrency.llamacpp-q4.c1"},
        {"vllm-bf16": "concurrency.vllm-bf16.c1", "llamacpp-q4": ""},
    ]


def test_the_same_engine_ahead_within_the_noise_is_no_choice(compared):
    engines = (VLLM, replace(VLLM, id="vllm-twin", baseline=False))

    def latency(e, c, r):
        return tuple(v * (1 + 0.05 * (r - 2)) * (1.01 if e == "vllm-twin" else 1) for v in VLLM.latency(c))

    c = compared(old={"engines": engines, "latency": latency}, new={"engines": engines, "latency": latency})
    assert [row.case for row in chosen(c) if not row.slo] == ["open", "open"]  # one user, and the peaks
    assert "the same name, not beyond the noise in both" in page(c)
    assert "undecided between vllm-bf16 with" in page(c)
    assert "Which engine to choose is within the noise in one of the rounds or in both" in page(c)


def test_a_limit_that_nobody_met_and_one_does_now_changes_the_recommendation(compared):
    slos = [{"id": "hard", "figure": "ttft", "percentile": "p50", "below_ms": 40}]
    c = compared(old={"slos": slos}, new={"slos": slos, "latency": noisy(vllm=0.5, shift=1)})
    assert next(row.case for row in chosen(c) if row.slo) == "gained"
    assert "it was no engine and is now vllm-bf16" in sentence(c)


def test_plans_with_different_limits_hold_only_the_common_ones_against_each_other(compared):
    other = [{"id": "easy", "figure": "ttft", "percentile": "p90", "below_ms": 900}]
    c = compared(old={"slos": SLOS}, new={"slos": other})
    assert [row.case for row in chosen(c)] == ["same", "now", "then", "same"]
    assert "a limit of one plan only" in page(c)


def test_rounds_of_other_engines_have_no_choice_to_compare(compared):
    c = compared(new={"engines": (VLLM,)})
    assert chosen(c) == []
    assert "there is no choice to hold against the other" in page(c)


def test_crossings_stand_side_by_side_whatever_the_order_of_the_engines(compared):
    c = compared(new={"engines": (replace(LLAMA, baseline=True), replace(VLLM, baseline=False))})
    (pair,) = crossed(c)
    assert [q.missing for q in (*pair.then, *pair.now)] == [False, False]
    assert pair.then[0].id.startswith("other.old.pair.concurrency.vllm-bf16.llamacpp-q4.cross")


# ------------------------------------------------------------------------------------------- the environment


def test_a_flag_that_changed_is_named_on_top_and_leads_to_its_line_in_both_rounds(compared):
    engines = [(replace(VLLM, flags=("--max-num-seqs", seqs)), LLAMA) for seqs in ("16", "2")]
    text = markdown(compared(old={"engines": engines[0]}, new={"engines": engines[1]}))["against-old/index.md"]
    assert "What was changed, as far as the rounds record it: vllm-bf16: --max-num-seqs 16 → 2." in words(text)
    (old,) = re.findall(r'href="(\.\./\.\./old/sources/launches/vllm-bf16/1/launch\.json\.html#L\d+)"', text)
    (new,) = re.findall(r'href="(\.\./sources/launches/vllm-bf16/1/launch\.json\.html#L\d+)"', text)
    assert old
    assert new
    assert "the change under test" in words(text)


def test_another_ceiling_is_a_row_and_shares_of_it_are_said_not_to_be_comparable(compared):
    lower = Ceiling(value=20e6, unit="B/s", source="measured", method="triad", samples=[19.9e6, 20e6])
    text = words(
        markdown(compared(new={"machine": {"ceilings": {"vllm-bf16": {"bandwidth": lower}}}}))["against-old/index.md"]
    )
    said = "30 MB/s20 MB/sMBU and attainment are shares of it: not comparable between the rounds"
    assert f"ceiling bandwidthvllm-bf16{said}" in text.replace("\u202f", " ")
    assert "MFU is a share of it: not comparable" in text  # which only the old round has


def test_rounds_with_nothing_changed_say_that_the_rest_is_noise(again):
    c = again
    assert "Nothing that the rounds record was changed between them" in page(c)


def test_hostile_flags_and_versions_are_shown_as_text(compared):
    hostile = "<script>alert(1)</script>{{ 7 * 7 }}|`x`"
    c = compared(new={"engines": (replace(VLLM, flags=("--name", hostile), version=hostile), LLAMA)})
    text = markdown(c)["against-old/index.md"]
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{ 7 * 7 }}" in text


def test_other_weights_make_the_levels_of_their_engine_alone_incomparable(compared):
    c = compared(new={"engines": (replace(VLLM, weights="others"), LLAMA), "latency": noisy(llama=1.5, shift=2)})
    assert sentence(c).startswith("llamacpp-q4 became slower")
    found = page(c)
    assert "not comparable: another model" in found
    assert "Not comparable concurrency vllm-bf16 c1: not comparable" in found.replace("\n", " ")


# ------------------------------------------------------------------------------------------- the table


def test_the_table_begins_with_what_changed_and_every_row_can_be_filtered(quicker):
    text = markdown(quicker)["against-old/index.md"]
    found = rows(text)
    verdicts = [row["verdict"] for row in found]
    assert verdicts[0] == "improved"
    assert verdicts == sorted(
        verdicts, key=["regressed", "improved", "inconclusive", "equivalent", "not_comparable"].index
    )
    assert all(set(row) == {"verdict", "test", "engine", "figure"} for row in found)
    options = set(re.findall(r'<option(?: class="gr-lit")? value="([^"]+)">', text))
    assert {value for row in found for value in row.values()} - {"concurrency"} <= options


def test_without_a_script_every_row_is_visible_and_the_form_is_not(again):
    text = markdown(again)["against-old/index.md"]
    assert re.search(r'<form class="gr-filter"[^>]* hidden>', text)
    assert not re.search(r"<tr[^>]*\bhidden\b", text)


def test_figures_that_the_page_has_no_room_for_stand_on_a_page_of_their_test(quicker, monkeypatch):
    monkeypatch.setattr(against, "MOST_ROWS", 4)
    c = quicker
    found = markdown(c)
    assert {
        "against-old/index.md",
        "against-old/concurrency/index.md",
        "against-old/concurrency-2/index.md",
    } <= found.keys()
    shown = [tuple(row.values()) for text in found.values() for row in rows(text)]
    assert len(shown) == len(list(c.figures))
    assert all(
        f'href="{path.split("/")[1]}/index.html"' in found["against-old/index.md"]
        for path in found
        if path.count("/") > 1
    )


def test_every_verdict_names_the_code_that_decides_it(compared):
    c = compared(new={"tests": (sweep(1, 8, requests=8), lengths(64, 128))})
    from genreport.comparing import STATES, VERDICTS

    told = re.findall(r'data-verdict="(\w+)" data-of="([^"]+)"', markdown(c)["against-old/index.md"])
    assert {word for word, _ in told} >= {"new", "gone"}
    for word, id in told:
        names = STATES if id.endswith(".state") else VERDICTS
        assert names[int(c.new.ledger[id].value)] == word


def test_the_smallest_visible_change_stands_beside_every_verdict_of_none(again):
    c = again
    text = markdown(c)["against-old/index.md"]
    for row in re.findall(r'<tr data-verdict="(?:equivalent|inconclusive)".*?</tr>', text, re.S):
        assert ".detectable" in row


def test_both_values_lead_to_their_own_round(again):
    text = markdown(again)["against-old/index.md"]
    id = "concurrency.vllm-bf16.c4.output_throughput"
    hrefs = re.findall(rf'href="([^"]+)" data-id="(?:other\.old\.)?{re.escape(id)}"', text)
    assert set(hrefs) == {
        f"../../old/figures/concurrency.vllm-bf16.c4.html#{id}",
        f"../figures/concurrency.vllm-bf16.c4.html#{id}",
    }


# ------------------------------------------------------------------------------------------- what is missing


def test_levels_that_failed_are_listed_with_how_many_completed(compared):
    c = compared(new={"failures": lambda e, level, *_: Failure(kind="http", status=500) if level == "c4" else None})
    assert "concurrency vllm-bf16 c4: failed. Completed: 24 then, 0 now." in page(c)


def test_a_cliff_test_alone_has_no_curves_and_says_so(compared):
    cliff = Test("cliff", "cliff", (Load("normal", 2, requests=8), Load("long", 2, 512, 64, requests=8)))
    c = compared(old={"tests": (cliff,)}, new={"tests": (cliff,)})
    assert "No concurrency sweep is common to both rounds" in page(c)
    assert {row["test"] for row in rows(markdown(c)["against-old/index.md"])} == {"cliff"}


def test_hypotheses_about_the_earlier_round_stand_with_their_verdict(compared):
    c = compared(
        new={"latency": noisy(vllm=0.6, shift=2), "hypotheses": [CLAIM, CLAIM | {"id": "x", "against_round": "y"}]}
    )
    found = page(c)
    assert "faster: it is faster – held" in found
    assert "which was not given" not in found


# ------------------------------------------------------------------------------------------- charts


def published(c: Comparison) -> None:
    """Puts the earlier round's manifest where the audit looks for it."""
    folder = c.old.round.path
    seal = {"sha256": seal_of(c.old.round), "bytes": 1, "lines": 1}
    (folder / "provenance.json").write_text(json.dumps(c.old.ledger.manifest("old", {"seal.json": seal})), "utf-8")


def test_charts_lay_both_rounds_over_each_other_and_tell_only_their_figures(quicker):
    c = quicker
    (first, *_) = against.pages(c)
    drawn = first.context["charts"]
    assert set(drawn) == {"throughput", "wait", "fronts", "distribution"}
    published(c)
    report = audited.charts(c.new, drawn.values())
    assert report.failures == []
    assert report.counts["chart values"] > 100
    for chart in drawn.values():
        rounds = {row["round"] for held in chart.spec["datasets"].values() for row in held}
        assert rounds == {"old", "new"}
        assert "solid new, dashed old" in chart.alt


def test_an_engine_keeps_its_colour_over_both_rounds_though_it_was_renamed(compared):
    c = compared(new={"engines": (replace(VLLM, id="vllm-new", weights="vllm-bf16"), LLAMA)})
    (first, *_) = against.pages(c)
    held = first.context["charts"]["throughput"].spec["datasets"].values()
    colours = {(row["engine"], row["colour"]) for some in held for row in some}
    assert {colour for engine, colour in colours if engine.startswith("vllm")} == {"1"}


def test_a_flag_on_a_chart_is_called_as_on_every_page(compared):
    (first, *_) = against.pages(compared(new={"prefix_hits": 0.5}))
    held = first.context["charts"]["throughput"].spec["datasets"].values()
    flags = {row.get("flag") for some in held for row in some if row["round"] == "new"}
    assert flags - {None, ""} == {"prefix cache hits"}
