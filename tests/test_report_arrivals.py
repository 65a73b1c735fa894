"""Report 07: up to which rate of arrivals an engine keeps up, and what the page says where that cannot be told."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import audited
from compose import LLAMA, VLLM, Test, arriving, compose_round, sweep
from genreport.display import shown
from genreport.figures import Figures, compute, limits
from genreport.pages import shared_context, write
from genreport.records import Failure, Request
from genreport.reports import all_pages, arrivals
from genreport.rounds import Round

# what the composed engines can do at most: four at once, 350 ms each
CAPACITY = 4 / 0.35


def figures_of(path: Path, *tests: Test, **what: object) -> Figures:
    what = {"engines": (VLLM,), "repeats": 1, "latency": lambda *_: (0.05, 0.02)} | what
    figures = compute(compose_round(path / "composed", tests=tests, **what))
    audited.recomputed(figures)
    return figures


def read(figures: Figures) -> str:
    page = next(page for page in all_pages(figures) if page.path == "arrivals/index.md")
    markup = write(page, figures.ledger, shared_context(figures)).text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\u202f", " ").split())


def due(path: Path, **load: object) -> dict[str, list[int]]:
    """Due times of the composed requests by engine and repeat, from the first one on."""
    composed = compose_round(path, tests=(arriving(5, **load),))
    read = {level.facts.key: [r.due_us for r in composed.requests(level) if not r.warmup] for level in composed.levels}
    return {key: sorted(us - min(found) for us in found) for key, found in read.items()}


@pytest.mark.parametrize(("process", "burstiness", "spread"), [("poisson", None, 1), ("gamma", 0.25, 2)])
def test_composed_arrivals_are_drawn_by_seed_and_come_alike_on_every_engine(tmp_path, process, burstiness, spread):
    load = {"process": process, "burstiness": burstiness, "requests": 400}
    found = due(tmp_path / "a", **load)
    assert found == due(tmp_path / "b", **load)
    assert found["arrivals/vllm-bf16/q5/r1"] == found["arrivals/llamacpp-q4/q5/r1"]
    assert found["arrivals/vllm-bf16/q5/r1"] != found["arrivals/vllm-bf16/q5/r2"]
    gaps = np.diff(found["arrivals/vllm-bf16/q5/r1"])
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.25)  # of a gamma distribution 1/sqrt(its shape)


def test_an_overloaded_engine_turns_away_what_its_queue_cannot_hold(tmp_path):
    load = arriving(20, requests=80, queue=3)
    composed = compose_round(tmp_path / "c", tests=(load,), engines=(VLLM,), latency=lambda *_: (0.05, 0.02))
    for level in composed.levels:
        failed = [request for request in composed.requests(level) if request.failure]
        # of 20 a second it takes what it can do, and three wait
        assert len(failed) == pytest.approx(80 * (1 - CAPACITY / 20) - 3, abs=4)
        assert {request.failure.status for request in failed} == {503}


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((2, 4), "vllm-bf16 keeps up at every rate measured, up to 4 req/s"),
        ((2,), "vllm-bf16 keeps up with 2 req/s, the only rate measured: there the first token comes"),
        ((4, 20), "vllm-bf16 keeps up with 4 req/s and falls behind at 20 req/s, where the wait for the first token grows by"),
        ((20, 40), "vllm-bf16 falls behind at the lowest rate measured, 20 req/s: the wait for the first token grows by"),
        ((20,), "vllm-bf16 falls behind at 20 req/s: the wait"),
    ],
)  # fmt: skip
def test_the_answer_says_up_to_which_rate_an_engine_keeps_up(tmp_path, rates, said):
    assert said in read(figures_of(tmp_path, arriving(*rates)))


def test_what_cannot_be_told_says_why(tmp_path):
    text = read(figures_of(tmp_path, arriving(2, requests=4)))
    assert "Whether vllm-bf16 keeps up cannot be told: too few requests completed, or all were due at once." in text


def test_failures_are_said_beside_the_answer(tmp_path):
    def failures(engine, level, repeat, index):
        return Failure(kind="http", status=503) if index == 5 else None

    text = read(figures_of(tmp_path, arriving(2, 4), failures=failures))
    assert "keeps up at every rate measured" in text
    assert "Requests failed at 2 req/s (1; 39 completed), and at other rates." in text


@pytest.mark.parametrize("every", [1, 3])
def test_an_engine_that_turns_requests_away_does_not_keep_up(tmp_path, every):
    def failures(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="http", status=503) if level == "q20" and index % every == 0 else None

    text = read(figures_of(tmp_path, arriving(2, 20), failures=failures))
    assert "vllm-bf16 keeps up with 2 req/s and not with 20 req/s: " in text
    assert "requests failed there and" in text


def test_each_engine_has_an_answer_of_its_own(tmp_path):
    text = read(figures_of(tmp_path, arriving(2, 4), engines=(VLLM, LLAMA)))
    assert "vllm-bf16 keeps up" in text
    assert "llamacpp-q4 keeps up" in text


def test_a_wait_counts_from_when_a_request_was_due(tmp_path):
    ledger = figures_of(tmp_path, arriving(20)).ledger
    # 40 requests at 20/s into 11.4/s: the last one is due after 1.95 s and waits for what the engine lags behind
    assert ledger["arrivals.vllm-bf16.q20.due_growth"].value == pytest.approx(20 / CAPACITY - 1, abs=0.05)
    assert ledger["arrivals.vllm-bf16.q20.arrival_rate"].value == pytest.approx(20, rel=1e-3)
    assert ledger["arrivals.vllm-bf16.q20.planned_rate"].value == 20
    assert ledger["arrivals.vllm-bf16.q20.due_ttft.p99"].value > 1


def achieved(figures: Figures, level: str) -> float:
    return figures.ledger[f"arrivals.vllm-bf16.{level}.achieved_share"].value


@pytest.mark.parametrize("output", [16, 400])
def test_an_engine_that_keeps_up_achieves_what_is_offered_however_long_its_answers_are(tmp_path, output):
    load = arriving(2, 4, at_once=64, output=output)  # answers of eight seconds, into a load of ten
    figures = figures_of(tmp_path, load, latency=lambda *_: (0.05, 0.02))
    assert [achieved(figures, level) for level in ("q2", "q4")] == pytest.approx([1, 1], abs=0.01)


def test_an_overloaded_engine_achieves_what_it_can_whatever_is_offered(tmp_path):
    figures = figures_of(tmp_path, arriving(20, 40, requests=200), repeats=2)
    assert achieved(figures, "q20") == pytest.approx(CAPACITY / 20, rel=0.03)
    assert achieved(figures, "q40") == pytest.approx(CAPACITY / 40, rel=0.03)


def test_what_fails_is_not_achieved(tmp_path):
    def failures(engine, level, repeat, index):
        return Failure(kind="connect") if index % 2 else None

    assert achieved(figures_of(tmp_path, arriving(2), failures=failures), "q2") == pytest.approx(0.5, abs=0.02)


def test_one_answer_has_no_rate(tmp_path):
    def failures(engine, level, repeat, index):
        return Failure(kind="connect") if index > 2 else None

    share = figures_of(tmp_path, arriving(2), failures=failures).ledger["arrivals.vllm-bf16.q2.achieved_share"]
    assert share.reason == "fewer than two requests completed, or all ended at once"


def test_the_charts_draw_what_the_figures_say(tmp_path):
    load = arriving(2, 4, 20, process="poisson", queue=8)
    figures = figures_of(tmp_path, load, engines=(VLLM, LLAMA), repeats=2, slos=(QUICK,))
    (page,) = arrivals.pages(figures)
    drawn = [*page.context["charts"].values(), *page.context["over_time"], *page.context["failures"]]
    assert {chart.name for chart in drawn} == {"achieved", "waits", "waits_over_time", "failures_over_time"}
    assert audited.charts(figures, drawn).failures == []


def curve(figures: Figures, level: str, name: str) -> tuple[float, ...]:
    return figures.ledger[f"arrivals.vllm-bf16.{level}.over_time.{name}"].value


def test_a_queue_that_grows_is_seen_over_time_and_one_that_does_not_is_level(tmp_path):
    figures = figures_of(tmp_path, arriving(4, 20, requests=120), repeats=2)
    growing, level = curve(figures, "q20", "p50"), curve(figures, "q4", "p50")
    assert list(growing) == sorted(growing)
    # the last stretch ends with the load: what came in six seconds needs ten
    assert growing[-1] == pytest.approx(120 / CAPACITY - 120 / 20, rel=0.1)
    assert max(level) < 1.1 * min(level)
    assert len(level) == 2 * 120 // 12
    assert sum(curve(figures, "q20", "n")) == 240


def test_failures_are_counted_where_they_were_due(tmp_path):
    def broken(engine, level, repeat, index):
        return Failure(kind="connect") if 60 <= index - 2 < 72 else None

    figures = figures_of(tmp_path, arriving(4, requests=120), failures=broken)
    # of ten stretches of three seconds the sixth
    assert curve(figures, "q4", "failed") == (12,)
    assert curve(figures, "q4", "failed_t") == pytest.approx((16.4,), abs=0.1)
    text = read(figures)
    assert "Failed requests in each stretch, by when they were due" in text


def test_a_load_without_failures_says_so(tmp_path):
    figures = figures_of(tmp_path, arriving(4))
    assert figures.ledger["arrivals.vllm-bf16.q4.over_time.failed"].reason == "no request failed"
    assert "No request failed at any rate." in read(figures)


def test_many_rates_are_drawn_about_the_limits_first(tmp_path):
    rates = (*range(2, 34, 2), 0.5)
    figures = figures_of(tmp_path, arriving(*sorted(rates), requests=16))
    (page,) = arrivals.pages(figures)
    assert len(page.context["over_time"]) == arrivals.PANELS
    assert "A drawing for the lowest and the highest rate, those about each engine's limit and some between" in read(
        figures
    )
    (pace,) = page.context["paces"]
    titles = [chart.spec["usermeta"]["title"] for chart in page.context["over_time"]]
    for level in (pace.held, pace.broke, pace.levels[0], pace.levels[-1]):
        assert f"at {shown(figures.ledger[f'{level}.arrival_rate'].value, 'req/s')}" in titles


def late(level: str, most_us: int) -> Callable[[str, Request], Request]:
    """A client that sends later and later at one level, at the end by so much."""

    def alter(key: str, request: Request) -> Request:
        if request.warmup or f"/{level}/" not in key:
            return request
        by = most_us * request.index // 40
        return request.model_copy(update={"t0_us": request.t0_us + by, "end_us": request.end_us + by})

    return alter


def flagged(figures: Figures, kind: str = "sent_late") -> list[str]:
    return [flag.scope for flag in figures.flags if flag.kind == kind]


def test_a_client_that_falls_behind_is_not_taken_for_an_engine_that_does(tmp_path):
    figures = figures_of(tmp_path, arriving(2, 4), alter=late("q4", 2_000_000))
    assert figures.ledger["arrivals.vllm-bf16.q4.due_growth"].value > arrivals.GROWS
    assert figures.ledger["arrivals.vllm-bf16.q4.sent_growth"].value == pytest.approx(0, abs=0.01)
    assert figures.ledger["arrivals.vllm-bf16.q4.sent_share"].value == pytest.approx(9.75 / 11.7, abs=0.01)
    assert flagged(figures) == ["arrivals.vllm-bf16.q4"]
    text = read(figures)
    assert "vllm-bf16 keeps up with 2 req/s: there the first token comes" in text
    assert "At 4 req/s it was the client that fell behind" in text
    assert "Do not choose a rate by these levels." in text


def test_where_the_client_fell_behind_at_the_only_rate_nothing_can_be_told(tmp_path):
    text = read(figures_of(tmp_path, arriving(4), alter=late("q4", 2_000_000)))
    assert "Whether vllm-bf16 keeps up cannot be told. At 4 req/s it was the client" in text


def test_an_engine_falls_behind_all_the_same_where_the_client_is_late_too(tmp_path):
    figures = figures_of(tmp_path, arriving(20), alter=late("q20", 600_000))
    assert flagged(figures) == ["arrivals.vllm-bf16.q20"]
    assert "vllm-bf16 falls behind at 20 req/s" in read(figures)


def test_a_client_that_is_late_by_less_than_a_tenth_of_the_wait_is_not_flagged(tmp_path):
    figures = figures_of(tmp_path, arriving(2, 4), alter=late("q4", 4_000))
    assert flagged(figures) == []
    assert "At no rate did the client send more than a tenth of the wait late" in read(figures)


@pytest.mark.parametrize("every", [1, 4])
def test_what_a_first_try_took_is_flagged_as_such_and_not_blamed_on_the_client(tmp_path, every):
    def again(key: str, request: Request) -> Request:
        if request.warmup or "/q4/" not in key or request.index % every:
            return request
        return late("q4", 2_000_000)(key, request).model_copy(update={"retries": 1})

    figures = figures_of(tmp_path, arriving(2, 4), alter=again)
    assert (flagged(figures), flagged(figures, "resent")) == ([], ["arrivals.vllm-bf16.q4"])
    assert figures.ledger["arrivals.vllm-bf16.q4.retries"].value == 40 / every
    assert figures.ledger["arrivals.vllm-bf16.q4.client_queue.p99"].value > 1
    assert "arrivals.vllm-bf16.q2.retries" not in figures.ledger
    if every > 1:  # else nothing is left that was sent once
        assert figures.ledger["arrivals.vllm-bf16.q4.client_queue_once.p99"].value < 0.01
    assert "requests sent again: a kept connection was found closed" in read(figures)


def test_a_client_that_was_late_is_flagged_though_some_requests_were_sent_again(tmp_path):
    def again(key: str, request: Request) -> Request:
        return late("q4", 2_000_000)(key, request).model_copy(update={"retries": int(request.index == 3)})

    assert flagged(figures_of(tmp_path, arriving(4), alter=again)) == ["arrivals.vllm-bf16.q4"]


def test_a_limit_of_the_plan_that_holds_requests_back_is_not_the_client_being_late(tmp_path):
    figures = figures_of(tmp_path, arriving(2, 4, max_in_flight=4), alter=late("q4", 2_000_000))
    assert flagged(figures) == []
    text = read(figures)
    assert "vllm-bf16 keeps up with 2 req/s and falls behind at 4 req/s" in text
    assert "mostly their wait for room" in text
    assert "past the plan's limit of 4 in flight they wait at the client" in text


@pytest.mark.parametrize("rates", [(1, 2, 4, 8, 12), range(1, 16)])
def test_no_page_of_three_engines_is_heavier_than_a_page_may_be(tmp_path, rates):
    engines = (VLLM, LLAMA, replace(VLLM, id="third", baseline=False))
    load = arriving(*rates, requests=120, process="poisson", queue=6)
    figures = compute(compose_round(tmp_path / "composed", tests=(load,), engines=engines, slos=(QUICK,))).for_pages
    (page,) = arrivals.pages(figures)
    assert len(page.context["over_time"]) == min(len(rates), arrivals.LINES // 3)
    assert len(write(page, figures.ledger, shared_context(figures)).text.encode()) < 380_000


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ({"process": "poisson"}, "with gaps drawn as of a Poisson process, whether or not earlier ones are done."),
        ({"process": "ramp", "to_rate": 8}, "at a rate that changes evenly from 2 req/s to 8 req/s, whether or not"),
        (
            {"process": "burst", "size": 8},
            "8 at once every 4 s, whether or not earlier ones are done. Rates below are means from",
        ),
        ({}, "They come by a schedule made beforehand, evenly, whether or not earlier ones are done."),
    ],
)
def test_how_requests_come_is_told(tmp_path, load, said):
    text = read(figures_of(tmp_path, arriving(2, requests=80, **load)))
    assert "One request shape, 64 tokens in and 16 tokens out. They come by a schedule made beforehand, " in text
    assert said in text


@pytest.mark.parametrize(
    ("to_rate", "said"),
    [
        (8, "vllm-bf16 keeps up while the rate goes from 2 req/s to 8 req/s: the first token comes"),
        (
            40,
            "vllm-bf16 falls behind while the rate goes from 2 req/s to 40 req/s: the wait for the first token grows by",
        ),
    ],
)
def test_a_ramp_is_judged_as_a_whole_and_named_by_its_ends(tmp_path, to_rate, said):
    load = arriving(2, requests=200, process="ramp", to_rate=to_rate)
    figures = figures_of(tmp_path, load, slos=(QUICK | {"below_ms": 1},))
    text = read(figures)
    assert said in text
    assert "none; at " in text
    assert "the mean of the ramp, it is" in text
    (page,) = arrivals.pages(figures)
    # over one rate there is nothing to draw, over the time of the load there is
    assert (page.context["charts"]["waits"], len(page.context["over_time"])) == (None, 1)


def test_a_rate_at_which_repeats_disagree_is_named(tmp_path):
    def slow(engine, c, repeat):
        return (0.05, 0.02 if repeat == 1 else 0.04)

    text = read(figures_of(tmp_path, arriving(2, 10), repeats=2, latency=slow))
    assert "Its repeats disagree at 10 req/s: there the growth is from " in text
    assert "Its repeats disagree" not in read(figures_of(tmp_path / "b", arriving(2, 4), repeats=2))


@pytest.mark.parametrize(
    ("process", "repeats", "told"), [("poisson", 1, True), ("poisson", 2, False), ("constant", 1, False)]
)
def test_one_repeat_of_drawn_arrivals_is_said_to_be_chance_near_a_limit(tmp_path, process, repeats, told):
    text = read(figures_of(tmp_path, arriving(2, 4, process=process), repeats=repeats))
    assert ("each rate ran once" in text) is told


@pytest.mark.parametrize("later_us", [0, 1_000_000, 5_000_000, 60_000_000])
def test_a_repeat_whose_load_begins_later_on_its_clock_changes_no_growth(tmp_path, later_us):
    def late(key: str, request: Request) -> Request:
        moved = {name: getattr(request, name) + later_us for name in ("due_us", "t0_us", "end_us")}
        return request.model_copy(update=moved) if key.endswith("/r2") and not request.warmup else request

    figures = figures_of(tmp_path, arriving(20), repeats=2, alter=late)
    assert figures.ledger["arrivals.vllm-bf16.q20.due_growth"].value == pytest.approx(20 / CAPACITY - 1, abs=0.05)
    assert max(curve(figures, "q20", "t")) < figures.ledger["arrivals.vllm-bf16.q20.due_span"].value
    assert "vllm-bf16 falls behind at 20" in read(figures)


def test_an_open_loop_has_no_number_in_flight_and_says_so(tmp_path):
    figures = figures_of(tmp_path, arriving(2))
    assert "open loop" in figures.ledger["arrivals.vllm-bf16.q2.concurrency"].reason
    assert "open loop" in figures.ledger["arrivals.vllm-bf16.q2.in_flight_ratio"].reason


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ((2, 8, 20), "vllm-bf16: 8 req/s, where it is 5"),
        ((2, 8, 20), "; at 20 req/s it is 1."),
        ((2, 8), "no rate tried broke the limit."),
        ((20, 40), "vllm-bf16: none; at the lowest rate tried, 20 req/s, it is 1."),
    ],
)
def test_a_search_says_between_which_rates_its_limit_lies(tmp_path, rates, said):
    text = read(figures_of(tmp_path, arriving(*rates, searched="quick"), slos=(QUICK,)))
    assert "the p99 TTFT, counted from when a request is due, stays within 150 ms and no request fails" in text
    assert said in text


QUICK = {"id": "quick", "figure": "ttft", "percentile": "p99", "below_ms": 150}


def test_limits_of_the_plan_are_held_against_rates_that_nobody_searched(tmp_path):
    slos = (QUICK, {"id": "whole", "figure": "e2el", "percentile": "p90", "below_ms": 500})
    text = read(figures_of(tmp_path, arriving(2, 4, 20), slos=slos))
    assert "The plan asked" not in text
    assert "The largest rate at which the p99 TTFT, counted from when a request is due, stays within 150 ms" in text
    assert "the p90 E2EL, counted from when a request is due, stays within 500 ms" in text
    assert text.count("vllm-bf16: 4 req/s, where it is ") == 2


def test_a_plan_without_limits_says_how_to_give_one(tmp_path):
    text = read(figures_of(tmp_path, arriving(2, 4)))
    assert "The plan names no limit (slos), so rates are held against none and there is no goodput." in text
    assert "goodput from due" not in text


def test_a_limit_of_the_command_line_is_held_against_rates(tmp_path):
    composed = compose_round(tmp_path / "composed", tests=(arriving(2, 4),), engines=(VLLM,))
    figures = compute(composed, limits.read(["ttft_p90=20ms"]))
    audited.recomputed(figures)
    assert "stays within 20 ms and no request fails: vllm-bf16: none; at the lowest rate tried, 2 req/s" in read(
        figures
    )


def held_back(key: str, request: Request) -> Request:
    """Sent 100 ms after it was due."""
    moved = {name: getattr(request, name) + 100_000 for name in ("t0_us", "end_us")}
    return request.model_copy(update=moved)


def test_goodput_counts_from_due_what_was_held_back_at_the_client(tmp_path):
    figures = figures_of(tmp_path, arriving(4), slos=(QUICK | {"below_ms": 120},), alter=held_back)
    level = "arrivals.vllm-bf16.q4"
    assert figures.ledger[f"{level}.goodput"].value == pytest.approx(4, abs=0.2)
    assert figures.ledger[f"{level}.due_goodput"].value == 0
    assert figures.ledger[f"{level}.due_good_share"].value == 0
    assert "goodput from sending" in read(figures)


def test_goodput_stands_once_where_the_client_held_nothing_back(tmp_path):
    text = read(figures_of(tmp_path, arriving(4), slos=(QUICK,)))
    assert "goodput from due" in text
    assert "from sending" not in text


def test_failed_requests_are_not_within_the_limits(tmp_path):
    def failures(engine, level, repeat, index):
        return Failure(kind="connect") if index % 4 == 3 else None

    figures = figures_of(tmp_path, arriving(4), slos=(QUICK,), failures=failures)
    assert figures.ledger["arrivals.vllm-bf16.q4.due_good_share"].value == 0.75


TPOT_ALONE = {"id": "steady", "figure": "tpot", "percentile": "p99", "below_ms": 1000}


def short(key: str, request: Request) -> Request:
    """Every second answer has one token."""
    if request.index % 2:
        return request
    usage = request.usage.model_copy(update={"completion_tokens": 1})
    told = {"gaps_us": [request.gaps_us[0], 30, 0], "kinds": "tud", "tokens": [1, 0, 0], "usage": usage}
    return request.model_copy(update=told | {"end_us": request.t0_us + request.gaps_us[0] + 40})


def test_requests_that_no_limit_could_judge_are_counted_beside_goodput(tmp_path):
    figures = figures_of(tmp_path, arriving(4), slos=(TPOT_ALONE,), alter=short)
    level = "arrivals.vllm-bf16.q4"
    assert figures.ledger[f"{level}.unjudged_requests"].value == 20
    assert figures.ledger[f"{level}.due_good_share"].value == 1
    assert figures.ledger[f"{level}.due_goodput"].value == pytest.approx(2, abs=0.2)
    assert "not_all_judged" in figures.ledger[f"{level}.due_goodput"].notes
    text = read(figures)
    assert "goodput from duenot judged" in text  # two heads of columns
    assert "Not judged are completed requests that no limit of the plan could judge" in text


def test_a_goodput_that_nothing_was_judged_for_says_so(tmp_path):
    figures = figures_of(tmp_path, arriving(4, output=1), slos=(TPOT_ALONE,))
    for name in ("due_goodput", "due_good_share"):
        found = figures.ledger[f"arrivals.vllm-bf16.q4.{name}"]
        assert (found.value, found.reason[:21]) == (None, "no request was judged")


def test_where_all_were_judged_nothing_is_said_of_it(tmp_path):
    assert "not judged" not in read(figures_of(tmp_path, arriving(4), slos=(QUICK,))).lower()


def test_the_chart_of_waits_shows_the_limits_of_the_first_token(tmp_path):
    slos = (QUICK, {"id": "whole", "figure": "e2el", "percentile": "p90", "below_ms": 500})
    (page,) = arrivals.pages(figures_of(tmp_path, arriving(2, 4), slos=slos))
    assert page.context["charts"]["waits"].alt.endswith("limits: p99 limit 150\u202fms.")


def test_a_round_without_an_open_loop_has_no_such_page(tmp_path):
    assert arrivals.pages(figures_of(tmp_path, sweep(1, 2))) == []


def test_levels_rise_by_their_rates_and_stand_beside_a_sweep(tmp_path):
    figures = figures_of(tmp_path, sweep(1, 2, 4), arriving(2, 4, 20), engines=(VLLM, LLAMA), repeats=2)
    (page,) = arrivals.pages(figures)
    assert [level.rpartition(".")[2] for level in page.context["paces"][0].levels] == ["q2", "q4", "q20"]
    for each in all_pages(figures):
        write(each, figures.ledger, shared_context(figures))


def test_a_second_open_loop_has_a_page_that_bears_its_name(tmp_path):
    other = replace(arriving(4), id="bursts")
    composed = compose_round(tmp_path / "composed", tests=(arriving(2), other), engines=(VLLM,))
    figures = compute(composed)
    shared = shared_context(figures)
    pages = {page.path: write(page, figures.ledger, shared).text for page in all_pages(figures)}
    assert pages["arrivals/index.md"].startswith("---\ntitle: 07 Arrivals\n---\n")
    assert pages["arrivals-bursts/index.md"].startswith("---\ntitle: 07 Arrivals, bursts\n---\n")
    assert "Arrivals, <span" in pages["index.md"]


GOLDEN = Path(__file__).parent / "golden" / "arrivals.txt"


def test_the_page_of_drawn_arrivals_and_an_overloaded_engine_reads_as_its_golden_one(tmp_path):
    """What a reader sees, without markup; a difference leaves the new text beside the old one."""
    load = arriving(2, 4, 20, requests=60, process="poisson", queue=6)
    figures = figures_of(tmp_path, load, engines=(VLLM, LLAMA), repeats=2, slos=(QUICK,))
    (page,) = arrivals.pages(figures)
    markup = re.sub(r"<[^>]+>", " ", write(page, figures.ledger, shared_context(figures)).text)
    seen = "\n".join(line for line in (" ".join(line.split()) for line in markup.split("\n")) if line) + "\n"
    if not GOLDEN.is_file() or GOLDEN.read_text("utf-8") != seen:
        GOLDEN.with_suffix(".txt.new").write_text(seen, "utf-8")
        pytest.fail(f"{GOLDEN.name} reads differently; compare it with {GOLDEN.name}.new")


def test_a_whole_site_of_an_open_loop_holds_its_audit(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from genreport.cli import main

    monkeypatch.chdir(tmp_path)
    compose_round(tmp_path / "runs" / "open", tests=(arriving(2, 20),), repeats=2)
    built = CliRunner().invoke(main, ["build", "runs/open"])
    assert built.exit_code == 0, built.output
    checked = CliRunner().invoke(main, ["audit", "site"])
    assert checked.exit_code == 0, checked.output
    assert Round(tmp_path / "runs" / "open").levels[0].facts.arrivals.rate == 2
