"""Two composed rounds whose truth is known: what is matched, what gets which verdict, and what is said where none is earned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compose import LLAMA, VLLM, Load, Test, compose_round, lengths, sweep
from genreport.comparing import compare, noise, opened
from genreport.comparing.environment import options
from genreport.comparing.hypotheses import judge
from genreport.errors import GenreportError, NoRound, OptionError, RoundError, Tampered, WrongFormat
from genreport.figures import compute
from genreport.publish import _recomputed
from genreport.records import Ceiling, Failure, Gpu
from genreport.rounds import Round

ENGINE = replace(VLLM, id="vllm")
SLOW = 1.5


def noisy(*, factor: float = 1.0, shift: float = 0.0, spread: float = 0.01):
    """Latencies of ENGINE times a factor, with noise of the repeat that differs between rounds by `shift`."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        wobble = 1 + spread * ((repeat * 7 + c * 3 + shift) % 5 - 2)
        ttft, itl = ENGINE.latency(c)
        return ttft * factor * wobble, itl * factor * wobble

    return latency


def recorded(folder: Path, **facts) -> Round:
    given = {"engines": (ENGINE,), "tests": (sweep(1, 4, requests=8),), "repeats": 3, "latency": noisy()} | facts
    return compose_round(folder, **given)


@pytest.fixture
def rounds(tmp_path):
    """Composes a pair of rounds: `old` and `new` are what differs from the usual one."""

    def made(old: dict | None = None, new: dict | None = None, **how):
        pair = [recorded(tmp_path / name, **(facts or {})) for name, facts in (("old", old), ("new", new))]
        return compare(*(compute(found, resampled=True) for found in reversed(pair)), **how)

    return made


def verdicts(comparison, figure: str) -> dict[str, str]:
    return {level.new.name: c.verdict for level in comparison.levels for c in level.figures if c.figure == figure}


def value(comparison, id: str):
    return comparison.new.ledger[id].value


def recomputes(comparison) -> None:
    """The second path agrees on every figure of both rounds."""
    _recomputed(comparison.old, {})
    _recomputed(comparison.new, {comparison.name: comparison.old.ledger})


# ------------------------------------------------------------------------------------------- verdicts


def test_a_slower_round_regressed_in_both_directions_of_better(rounds):
    found = rounds(new={"latency": noisy(factor=SLOW, shift=2)})
    assert verdicts(found, "output_throughput") == {"c1": "regressed", "c4": "regressed"}
    assert verdicts(found, "itl.p50") == {"c1": "regressed", "c4": "regressed"}
    assert value(found, "against.old.concurrency.vllm.c4.itl.p50.ratio") == pytest.approx(SLOW, rel=0.03)
    recomputes(found)


def test_a_faster_round_improved(rounds):
    found = rounds(new={"latency": noisy(factor=1 / SLOW, shift=2)})
    assert set(verdicts(found, "ttft.p50").values()) == {"improved"}
    assert set(verdicts(found, "output_throughput").values()) == {"improved"}


def test_two_recordings_of_the_same_thing_show_no_change(rounds):
    found = rounds(new={"latency": noisy(shift=1), "seed": "again"})
    assert {c.verdict for c in found.figures} <= {"equivalent", "inconclusive", "not_comparable"}
    assert value(found, found.count("improved")) == value(found, found.count("regressed")) == 0
    recomputes(found)


def test_a_change_smaller_than_the_margin_of_the_plan_is_none(rounds):
    plan = {"plan": {"noise_margin": 0.3}}
    found = rounds(old=plan, new=plan | {"latency": noisy(factor=1.1, shift=1)})
    assert verdicts(found, "itl.p50") == {"c1": "equivalent", "c4": "equivalent"}
    assert value(found, "against.old.concurrency.vllm.c1.itl.p50.q") < 0.05
    assert value(found, "against.old.concurrency.vllm.c1.itl.p50.margin") == 0.3


def test_the_margin_is_the_floor_given_where_that_is_larger(rounds):
    floor = noise.Noise((noise.Floor("itl.p50", 0.9, 3, 0.9),), ("a", "b"))
    found = rounds(new={"latency": noisy(factor=SLOW, shift=2)}, noise=floor)
    assert set(verdicts(found, "itl.p50").values()) == {"equivalent"}
    assert set(verdicts(found, "e2el.p50").values()) == {"regressed"}
    recomputes(found)


@pytest.mark.parametrize("repeats", [1, 2])
def test_no_verdict_rests_on_fewer_than_three_repeats(rounds, repeats):
    found = rounds(new={"latency": noisy(factor=SLOW), "repeats": repeats})
    assert {c.verdict for c in found.figures} == {"too_few"}
    assert value(found, "against.old.concurrency.vllm.c1.itl.p50.ratio") == pytest.approx(SLOW, rel=0.05)
    assert "against.old.concurrency.vllm.c1.itl.p50.low" not in found.new.ledger
    recomputes(found)


def test_the_two_values_of_a_change_are_the_means_of_which_it_is_the_ratio(rounds):
    """One repeat of three is an outlier: pooled over requests it decides the p99, as one mean of three it does not."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return (0.5, 0.02) if repeat == 1 else (0.05, 0.02)

    found = rounds(new={"latency": latency})
    c = next(c for c in found.figures if c.figure == "ttft.p99")
    assert value(found, c.now) / value(found, c.then) == pytest.approx(value(found, f"{c.scope}.ratio"))
    assert value(found, c.now) < value(found, c.new_id) / 2
    recomputes(found)


def test_a_level_without_means_shows_its_own_figures(rounds):
    found = rounds(new={"machine": {"cpu": "Another CPU"}})
    assert {(c.then, c.now) for c in found.figures} == {(c.old_id, c.new_id) for c in found.figures}


def test_what_is_outside_the_family_has_an_interval_and_no_verdict(rounds):
    found = rounds(new={"latency": noisy(factor=SLOW, shift=2)}, family="throughput")
    assert set(verdicts(found, "output_throughput").values()) == {"regressed"}
    assert set(verdicts(found, "itl.p50").values()) == {"outside"}
    assert value(found, "against.old.family.size") == 2
    assert value(found, "against.old.concurrency.vllm.c1.itl.p50.low") > 1
    recomputes(found)


def test_repeats_without_any_spread_decide_nothing(rounds):
    same = {"latency": lambda engine, c, repeat: (0.05, 0.02), "jitter": 0}
    found = rounds(old=same, new=same | {"plan": {"seed": 2}})
    assert verdicts(found, "ttft.p50") == {"c1": "inconclusive", "c4": "inconclusive"}
    assert "no spread" in found.new.ledger["against.old.concurrency.vllm.c1.ttft.p50.error"].reason
    recomputes(found)


def test_the_same_round_twice_is_equal_and_says_so(tmp_path):
    recorded(tmp_path / "one")
    found = opened(str(tmp_path / "one"), str(tmp_path / "one"))
    assert found.same
    assert {c.verdict for c in found.figures} == {"equal"}
    assert all(d.same for d in found.environment)
    assert {exact.verdict for level in found.levels for exact in level.exact} == {"equal"}
    recomputes(found)


def test_counters_are_compared_as_they_are(rounds):
    found = rounds(old={"preemptions": 4}, new={"preemptions": 6})
    exact = {e.figure: e.verdict for e in found.levels[0].exact}
    assert exact["preemptions"] == "changed"
    assert exact["output_tokens"] == exact["completed"] == "equal"
    assert {e.figure: e.verdict for e in found.exact}["weights_bytes"] == "equal"
    recomputes(found)


def test_counters_of_different_numbers_of_repeats_are_not_compared(rounds):
    found = rounds(new={"repeats": 4})
    assert {e.verdict for e in found.levels[0].exact} == {"not_comparable"}


def test_the_bootstrap_agrees_on_a_large_change_and_stands_beside_latencies_only(rounds):
    found = rounds(new={"latency": noisy(factor=SLOW, shift=2)})
    opinions = {c.figure: c.second_opinion for c in found.levels[0].figures}
    assert opinions["ttft.p50"] == opinions["e2el.p99"] == "agrees"
    assert opinions["output_throughput"] == opinions["itl.p50"] == "none"


def test_the_detectable_difference_stands_beside_every_verdict(rounds):
    found = rounds(new={"latency": noisy(shift=1), "seed": "again"})
    for c in found.figures:
        if c.verdict in ("equivalent", "inconclusive"):
            alike, alone = (found.new.ledger[f"{c.scope}.{name}"] for name in ("detectable", "detectable_alone"))
            assert alike.missing or alone.missing or 0 < alike.value <= alone.value


# ------------------------------------------------------------------------------------------- matching


def test_an_engine_that_was_renamed_is_found_by_its_weights(rounds):
    found = rounds(new={"engines": (replace(ENGINE, id="renamed", weights="vllm"),), "latency": None})
    assert [(pair.old, pair.new, pair.how) for pair in found.engines] == [("vllm", "renamed", "model")]
    assert {level.state for level in found.levels} == {"matched"}
    recomputes(found)


def test_a_map_names_the_engine_that_another_became(rounds):
    other = replace(ENGINE, id="other", weights="vllm")
    found = rounds(new={"engines": (ENGINE, other), "latency": None}, names={"vllm": "other"})
    assert [(pair.old, pair.new, pair.how) for pair in found.engines] == [(None, "vllm", ""), ("vllm", "other", "map")]
    assert sorted(level.state for level in found.levels) == ["matched", "matched", "new", "new"]


@pytest.mark.parametrize(("names", "said"), [({"x": "vllm"}, "earlier"), ({"vllm": "x"}, "later")])
def test_a_map_of_an_engine_that_is_not_there_is_one_clear_line(rounds, names, said):
    with pytest.raises(OptionError, match=f"the {said} round has no engine 'x'.*its engines are vllm"):
        rounds(names=names)


def test_a_level_is_found_by_its_load_not_by_its_name(rounds):
    renamed = Test("sweep", "concurrency", (Load("one", 1, requests=8), Load("four", 4, requests=8)))
    found = rounds(new={"tests": (renamed,)})
    assert [(level.old.name, level.new.name, level.state) for level in found.levels] == [
        ("c1", "one", "matched"), ("c4", "four", "matched"),
    ]  # fmt: skip


def test_a_level_of_another_shape_stands_beside_the_old_one_without_a_verdict(rounds):
    found = rounds(new={"tests": (sweep(1, 4, input=128, requests=8),)})
    assert {level.state for level in found.levels} == {"different"}
    assert [(d.name, d.old, d.new) for d in found.levels[0].because] == [("input", "64", "128")]
    assert {c.verdict for c in found.figures} == {"not_comparable"}
    recomputes(found)


def an_open_loop(**load) -> Test:
    """One level at a rate of 4; `load` is what it has of its own."""
    return Test("arrivals", "open", (Load("q4", 4, requests=24, **({"rate": 4} | load)),))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, {"process": "poisson"}, {"process", "burstiness"}),
        ({"process": "gamma", "burstiness": 0.5}, {"process": "gamma", "burstiness": 2}, {"burstiness"}),
        ({"process": "ramp", "to_rate": 20}, {"process": "ramp", "to_rate": 60}, {"rate", "to_rate"}),
        ({"process": "burst", "size": 8}, {"process": "burst", "size": 4}, {"size", "every_s"}),
        ({}, {"max_in_flight": 2}, {"max_in_flight"}),
        ({}, {"rate": 5}, {"rate"}),
        ({"shared_prefix": 0.5}, {"shared_prefix": 0.9}, {"shared_prefix"}),
        ({"trace": "a" * 64}, {"trace": "b" * 64}, {"trace"}),
    ],
)
def test_requests_that_come_otherwise_make_another_level(rounds, before, after, said):
    found = rounds(old={"tests": (an_open_loop(**before),)}, new={"tests": (an_open_loop(**after),)})
    (level,) = found.levels
    assert level.state == "different"
    assert {d.name for d in level.because} == said
    assert {c.verdict for c in found.figures} == {"not_comparable"}
    recomputes(found)


def test_an_open_loop_is_judged_from_when_requests_were_due(rounds):
    slos = [{"id": "fast", "figure": "ttft", "percentile": "p99", "below_ms": 900}]
    facts = {"tests": (an_open_loop(),), "slos": slos}
    found = rounds(old=facts, new=facts | {"latency": noisy(factor=SLOW, shift=2)})
    judged = {c.figure: c.verdict for c in found.figures}
    assert judged.keys() & {"ttft.p50", "ttft.p99", "e2el.p50", "e2el.p99", "goodput"} == set()
    assert judged["due_ttft.p50"] == judged["due_e2el.p50"] == "regressed"
    assert {"due_ttft.p99", "due_e2el.p99", "due_goodput", "itl.p50"} <= judged.keys()
    assert next(c.second_opinion for c in found.figures if c.figure == "due_ttft.p50") == "agrees"
    recomputes(found)


def test_levels_of_one_round_only_are_new_or_gone(rounds):
    found = rounds(old={"tests": (sweep(1, 2, requests=8),)}, new={"tests": (sweep(1, 4, requests=8),)})
    assert [level.state for level in found.levels] == ["matched", "new", "gone"]
    assert value(found, f"{found.scope}.levels.new") == value(found, f"{found.scope}.levels.gone") == 1
    recomputes(found)


def test_rounds_without_a_common_level_say_so(rounds):
    found = rounds(old={"tests": (lengths(64),)}, new={"tests": (sweep(8, requests=8),)})
    assert {level.state for level in found.levels} == {"new", "gone"}
    assert list(found.figures) == []
    recomputes(found)


def test_more_requests_a_repeat_are_a_caution_and_no_obstacle(rounds):
    found = rounds(new={"tests": (sweep(1, 4, requests=12),)})
    assert {level.state for level in found.levels} == {"matched"}
    assert [(d.name, d.old, d.new) for d in found.levels[0].cautions] == [("requests", "8", "12")]


def test_a_wait_that_a_cache_shortened_is_not_compared_and_what_is_flagged_once_is_a_caution(rounds):
    found = rounds(new={"prefix_hits": 0.6, "latency": noisy(shift=1)})
    assert set(verdicts(found, "ttft.p50").values()) == set(verdicts(found, "ttft.p99").values()) == {"not_comparable"}
    assert "not_comparable" not in verdicts(found, "itl.p50").values()
    assert {(f.kind, f.new) for level in found.levels for f in level.flagged} == {("prefix_cache", True)}
    recomputes(found)


def test_a_wait_is_not_compared_where_both_are_flagged_and_one_cache_held_more(rounds):
    found = rounds(old={"prefix_hits": 0.3}, new={"prefix_hits": 0.6, "latency": noisy(shift=1)})
    assert set(verdicts(found, "ttft.p50").values()) == {"not_comparable"}
    assert all(level.doubted and not level.flagged for level in found.levels)


def test_a_wait_is_compared_where_the_cache_held_as_much_before(rounds):
    found = rounds(old={"prefix_hits": 0.6}, new={"prefix_hits": 0.6, "latency": noisy(factor=SLOW, shift=1)})
    assert set(verdicts(found, "ttft.p50").values()) == {"regressed"}
    assert not any(level.flagged for level in found.levels)


def test_a_level_at_which_nothing_completed_failed(rounds):
    def broken(engine, level, repeat, index):
        return Failure(kind="http", status=500) if level == "c4" else None

    found = rounds(new={"failures": broken})
    assert [level.state for level in found.levels] == ["matched", "failed"]
    assert [level.new.name for level in found.failing] == ["c4"]
    assert found.levels[1].figures == ()
    recomputes(found)


def test_another_machine_is_another_setting(rounds):
    found = rounds(new={"machine": {"cpu": "Another CPU"}})
    assert [(d.name, d.old, d.new) for d in found.setting] == [("cpu", "Composed CPU", "Another CPU")]
    assert {level.state for level in found.levels} == {"different"}
    assert {c.verdict for c in found.figures} == {"not_comparable"}


def test_a_kernel_that_keeps_a_little_more_memory_is_the_same_machine(rounds):
    found = rounds(new={"machine": {"memory_bytes": 24 * 2**30 - 2**20, "kernel": "0.1"}})
    assert found.setting == ()
    assert {(d.topic, d.name) for d in found.environment if not d.same} >= {("machine", "memory"), ("system", "kernel")}


def measured(*runs: float) -> dict:
    """A machine whose memory bandwidth was measured in these runs; the best is the ceiling."""
    ceiling = Ceiling(value=max(runs), unit="B/s", source="measured by the runner", method="triad", samples=list(runs))
    return {"machine": {"ceilings": {"vllm": {"bandwidth": ceiling}}}}


@pytest.mark.parametrize(
    ("then", "now", "differs"),
    [
        ((12e9, *[16.8e9] * 8, 17e9, 17e9), (11e9, *[13.5e9] * 8, 13.8e9, 13.9e9), True),
        ((*[16.0e9] * 8, 16.8e9, 17e9), (*[16.1e9] * 8, 16.5e9, 17.1e9), False),
    ],
    ids=["apart, though slow runs overlap", "within the best tenth"],
)
def test_a_ceiling_differs_where_the_best_runs_lie_apart(rounds, then, now, differs):
    found = rounds(old=measured(*then), new=measured(*now))
    (row,) = [d for d in found.environment if d.topic == "ceiling"]
    assert row.same is not differs
    assert (row.scope, row.name, row.old, row.blocks) == ("vllm", "bandwidth", "17\u202fGB/s", False)
    assert found.new.round.text(row.new_at.file).split("\n")[row.new_at.line - 1].strip().startswith('"value"')
    assert {level.state for level in found.levels} == {"matched"}


def test_a_ceiling_that_one_round_lacks_differs(rounds):
    found = rounds(old={"ceilings": False}, new=measured(17e9))
    assert [(d.name, d.old) for d in found.environment if d.topic == "ceiling" and not d.same] == [("bandwidth", None)]


def with_gpu(**facts) -> dict:
    return {"machine": {"gpus": [Gpu(**({"name": "Composed GPU", "memory_bytes": 2**36, "driver": "1.0"} | facts))]}}


def test_another_driver_of_a_gpu_is_named_and_keeps_levels_comparable(rounds):
    found = rounds(old=with_gpu(), new=with_gpu(driver="2.0"))
    changed = {(d.topic, d.name, d.old, d.new) for d in found.environment if not d.same}
    assert changed == {("system", "gpu 0 driver", "1.0", "2.0")}
    assert {level.state for level in found.levels} == {"matched"}


def test_another_gpu_is_another_machine(rounds):
    found = rounds(old=with_gpu(), new=with_gpu(name="Other GPU"))
    assert [(d.name, d.old, d.new) for d in found.setting] == [("gpu 0", "Composed GPU", "Other GPU")]


def test_other_weights_are_another_model(rounds):
    found = rounds(new={"engines": (replace(ENGINE, weights="others"),)})
    assert {level.state for level in found.levels} == {"different"}
    assert [d.topic for d in found.engines[0].blocks] == ["model"]


def test_without_hashes_another_name_is_another_model(rounds):
    named = replace(ENGINE, model="another-32B")
    found = rounds(old={"models": False}, new={"models": False, "engines": (named,)})
    assert {level.state for level in found.levels} == {"different"}
    said = [(d.topic, d.name, d.old, d.new) for d in found.levels[0].because]
    assert said == [("model", "served model", "composed", "another-32B")]


def test_with_equal_hashes_another_name_is_none(rounds):
    found = rounds(new={"engines": (replace(ENGINE, model="alias"),)})
    assert {level.state for level in found.levels} == {"matched"}


def test_a_precision_that_changed_is_named(rounds):
    found = rounds(new={"engines": (replace(ENGINE, precision="fp8"),)})
    assert [(d.name, d.old, d.new) for d in found.levels[0].because] == [("precision", "bf16", "fp8")]


def test_flags_version_and_sampling_are_the_change_under_test(rounds):
    found = rounds(
        old={"engines": (replace(ENGINE, flags=("--slots", "16", "--eager")),)},
        new={"engines": (replace(ENGINE, flags=("--slots=2",), version="0.1"),)},
    )
    changed = {(d.topic, d.name): (d.old, d.new) for d in found.environment if not d.same}
    assert changed[("flags", "--slots")] == ("16", "2")
    assert changed[("flags", "--eager")] == ("yes", None)
    assert changed[("engine", "version")] == ("0.0", "0.1")
    assert {level.state for level in found.levels} == {"matched"}


def test_a_difference_names_the_line_that_states_it(rounds):
    found = rounds(new={"engines": (replace(ENGINE, flags=("--slots", "2")),)})
    place = next(d.new_at for d in found.environment if d.name == "--slots")
    line = found.new.round.text(place.file).split("\n")[place.line - 1]
    assert "--slots" in line


def test_other_limits_leave_goodput_uncompared(rounds):
    slo = {"id": "fast", "figure": "ttft", "percentile": "p99", "below_ms": 500}
    found = rounds(old={"slos": [slo]}, new={"slos": [slo | {"below_ms": 700}]})
    assert set(verdicts(found, "goodput").values()) == {"not_comparable"}
    assert [d.name for d in found.environment if d.topic == "slos" and not d.same] == ["fast"]
    recomputes(found)


def test_equal_limits_under_other_names_leave_goodput_comparable(rounds):
    slo = {"id": "fast", "figure": "ttft", "percentile": "p99", "below_ms": 900}
    found = rounds(old={"slos": [slo]}, new={"slos": [slo | {"id": "quick"}]})
    assert "not_comparable" not in verdicts(found, "goodput").values()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["serve", "model", "--a", "1", "--b"], {"command": "serve", "arguments": "model", "--a": "1", "--b": "yes"}),
        (["serve", "--a=1", "--a", "2"], {"command": "serve", "--a": "1 2"}),
        (["serve", "--bias", "-1.5", "-np", "2"], {"command": "serve", "--bias": "-1.5", "-np": "2"}),
        ([], {}),
    ],
)
def test_a_command_line_is_read_as_options(command, said):
    assert {name: value for name, (value, _) in options(command).items()} == said


# ------------------------------------------------------------------------------------------- hypotheses


def claim(**facts) -> dict:
    return {"id": "h", "text": "it changes", "figure": "itl.p50", "test": "concurrency", "engine": "vllm"} | facts


@pytest.mark.parametrize(
    ("factor", "facts", "verdict"),
    [
        (SLOW, {"changes_by_more_than": 0.1}, "held"),
        (1.0, {"changes_by_more_than": 0.3}, "refuted"),
        (SLOW, {"rises_by_more_than": 0.2}, "held"),
        (SLOW, {"falls_by_more_than": 0.2}, "refuted"),
        (1 / SLOW, {"falls_by_more_than": 0.2}, "held"),
        (1.0, {"stays_within": 0.2}, "held"),
        (SLOW, {"stays_within": 0.2}, "refuted"),
    ],
)
def test_a_hypothesis_is_held_or_refuted(rounds, factor, facts, verdict):
    entry = claim(against_round="old", **facts)
    found = rounds(new={"latency": noisy(factor=factor, shift=2), "hypotheses": [entry]})
    (judged,) = judge(found.new, [found])
    assert judged.verdict == verdict
    assert len(judged.levels) == 2
    recomputes(found)


def test_an_undecided_hypothesis_states_the_repeats_that_would_decide(rounds):
    entry = claim(against_round="old", changes_by_more_than=0.03)
    found = rounds(new={"latency": noisy(factor=1.02, shift=2, spread=0.04), "hypotheses": [entry]})
    (judged,) = judge(found.new, [found])
    assert judged.verdict == "undecided"
    assert value(found, "hypothesis.h.needed") > 3
    recomputes(found)


def test_a_hypothesis_whose_round_was_not_given_says_so(rounds):
    found = rounds(new={"hypotheses": [claim(against_round="elsewhere", changes_by_more_than=0.1)]})
    (judged,) = judge(found.new, [found])
    assert (judged.verdict, judged.why) == ("not_judged", "not_given")


def test_a_hypothesis_between_engines_needs_no_other_round(tmp_path):
    engines = (ENGINE, LLAMA)
    entry = claim(engine=LLAMA.id, against_engine="vllm", figure="output_throughput", rises_by_more_than=0.1)
    found = compute(recorded(tmp_path / "one", engines=engines, latency=None, hypotheses=[entry],
                             tests=(sweep(1, 2, requests=8),)))  # fmt: skip
    (judged,) = judge(found)
    assert judged.verdict == "held"
    _recomputed(found, {})


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"test": "elsewhere"}, "no_level"),
        ({"figure": "mbu"}, "no_repeats"),
        ({"changes_by_more_than": "much"}, "no_claim"),
    ],
)
def test_a_hypothesis_that_nothing_decides_says_why(rounds, facts, why):
    found = rounds(new={"hypotheses": [claim(against_round="old", **({"changes_by_more_than": 0.1} | facts))]})
    (judged,) = judge(found.new, [found])
    assert (judged.verdict, judged.why) == ("not_judged", why)


def test_a_hypothesis_over_two_repeats_is_undecided(rounds):
    entry = claim(against_round="old", changes_by_more_than=0.1)
    found = rounds(old={"repeats": 2}, new={"repeats": 2, "hypotheses": [entry]})
    (judged,) = judge(found.new, [found])
    assert (judged.verdict, judged.why) == ("undecided", "too_few")


def test_the_statistic_a_hypothesis_is_about_is_computed_for_each_repeat(rounds):
    entry = claim(against_round="old", figure="ttft.p90", changes_by_more_than=0.1)
    pair = {"hypotheses": [entry]}
    found = rounds(old=pair, new=pair | {"latency": noisy(factor=SLOW, shift=2)})
    (judged,) = judge(found.new, [found])
    assert judged.verdict == "held"


# ------------------------------------------------------------------------------------------- bad input


def test_bad_rounds_are_one_clear_line_each(tmp_path):
    good = recorded(tmp_path / "good")
    with pytest.raises(NoRound, match="no such round"):
        opened(str(good.path), str(tmp_path / "nowhere"))
    recorded(tmp_path / "unsealed", seal=False)
    with pytest.raises(RoundError, match="not sealed: an unfinished round is not compared"):
        opened(str(good.path), str(tmp_path / "unsealed"))
    recorded(tmp_path / "tampered")
    facts = next((tmp_path / "tampered").rglob("requests.jsonl"))
    facts.write_text(facts.read_text().replace('"asked_output":16', '"asked_output":17'))
    with pytest.raises(Tampered, match="changed since it was sealed"):
        opened(str(good.path), str(tmp_path / "tampered"))
    other = recorded(tmp_path / "other")
    head = json.loads((other.path / "round.json").read_text()) | {"format": "genreport-round/9"}
    (other.path / "round.json").write_text(json.dumps(head))
    with pytest.raises(WrongFormat, match="genreport-round/9"):
        opened(str(good.path), str(other.path))


def test_a_family_that_is_none_is_named(rounds):
    with pytest.raises(OptionError, match=r"no family or figure 'everything'.*choose one of all, main"):
        rounds(family="everything")


def test_a_round_without_levels_is_compared_with_nothing(rounds):
    found = rounds(old={"tests": ()})
    assert {level.state for level in found.levels} == {"new"}
    recomputes(found)


# ------------------------------------------------------------------------------------------- noise


def test_the_noise_between_rounds_is_what_their_levels_differ_by(tmp_path):
    for name, facts in (("a", {}), ("b", {"latency": noisy(factor=1.1)})):
        recorded(tmp_path / name, **facts)
    found = noise.of_paths([tmp_path / "a", tmp_path / "b"])
    assert found.floors["itl.p50"] == pytest.approx(0.1, abs=0.01)
    noise.write(found, tmp_path / "noise.json")
    assert noise.read(tmp_path / "noise.json") == found
    assert len(list(noise.told(found))) == 1 + len(found.found)


def test_noise_of_one_round_or_of_strangers_is_refused(tmp_path):
    recorded(tmp_path / "a")
    recorded(tmp_path / "b", tests=(sweep(8, requests=8),))
    with pytest.raises(OptionError, match="takes two"):
        noise.of_paths([tmp_path / "a"])
    with pytest.raises(OptionError, match="no level in common"):
        noise.of_paths([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"engines": (replace(ENGINE, flags=("--slots", "2")),)}, "vllm flags --slots none → 2"),
        ({"engines": (replace(ENGINE, version="0.1"),)}, "vllm engine version 0.0 → 0.1"),
        ({"machine": {"cpu": "Another CPU"}}, "machine cpu Composed CPU → Another CPU"),
        ({"machine": {"kernel": "0.1"}}, "system kernel 0.0 → 0.1"),
        ({"tests": (sweep(1, 4, input=128, requests=8),)}, "level input 64 → 128"),
    ],
)
def test_noise_of_rounds_in_which_something_was_changed_is_refused(tmp_path, facts, said):
    recorded(tmp_path / "a")
    recorded(tmp_path / "b", **facts)
    with pytest.raises(OptionError, match=f"b: something was changed: {said}; name recordings between which nothing"):
        noise.of_paths([tmp_path / "a", tmp_path / "b"])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": "x"}', '{"format": "genreport-noise/1", "figures": {"itl.p50": 3}}']
)
def test_a_file_that_holds_no_noise_is_one_clear_line(tmp_path, text):
    (tmp_path / "noise.json").write_text(text)
    with pytest.raises(GenreportError, match=r"noise.json: no floors of noise.*write it with"):
        noise.read(tmp_path / "noise.json")
