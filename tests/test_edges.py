"""Rounds at the edges: one test, one engine, one level, all failed, nothing stated. Each builds and reads sensibly."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from compose import LLAMA, VLLM, Engine, Load, Test, arriving, bunched, compose_round, lengths, sweep
from genreport.charts import Chart
from genreport.comparing.hypotheses import judge
from genreport.comparing.lineage import claims
from genreport.figures import compute
from genreport.pages import shared_context, write
from genreport.records import Failure, Request
from genreport.reports import all_pages, concurrency

CLIFF = Test("cliff", "cliff", (Load("normal", 16, 64, 16, 32), Load("long", 16, 1024, 64, 32)))
LONE = Test("cliff", "cliff", (Load("normal", 4, 64, 16),))
ALL = (sweep(1, 2, 4, 8, 16), lengths(64, 128, 256), CLIFF)
OPENAI = (Engine("plain", "openai", baseline=True), Engine("other", "openai"))
POOR = {"counters": False, "samples": False, "logs": False, "models": False}
SLOS = (
    {"id": "quick", "figure": "ttft", "percentile": "p99", "below_ms": 150},
    {"id": "never", "figure": "ttft", "percentile": "p99", "below_ms": 1},
)


def failing(engine: str | None = None, level: str | None = None, repeat: int | None = None) -> Callable:
    """Fails what is named."""
    wanted = (engine, level, repeat)
    return lambda *found: (
        Failure(kind="http", status=503) if all(w in (None, f) for w, f in zip(wanted, found, strict=False)) else None
    )


def half(*engines: str) -> Callable:
    """Fails every second request of these engines."""
    return lambda engine, level, repeat, index: (
        Failure(kind="http", status=503) if engine in engines and index % 2 else None
    )


def uncounted(_: str, request: Request) -> Request:
    """A server that states no tokens and no times."""
    return request.model_copy(update={"usage": None, "tokens": None, "server": {}})


CASES: dict[str, dict] = {
    "a concurrency sweep only": {"tests": ALL[:1]},
    "a length sweep only": {"tests": ALL[1:2]},
    "a cliff only": {"tests": ALL[2:]},
    "one vLLM only": {"tests": ALL, "engines": (VLLM,)},
    "one llama.cpp only": {"tests": ALL, "engines": (LLAMA,)},
    "one level only": {"tests": (sweep(4), lengths(64), LONE)},
    "one request at a time only": {"tests": (sweep(1),), "engines": (VLLM,)},
    "two repeats": {"tests": ALL, "repeats": 2},
    "all failed": {"tests": ALL, "failures": failing()},
    "the challenger failed": {"tests": ALL, "failures": failing("llamacpp-q4")},
    "the baseline failed": {"tests": ALL, "failures": failing("vllm-bf16")},
    "half failed": {"tests": ALL, "failures": half("llamacpp-q4"), "repeats": 2},
    "half of both failed": {"tests": ALL[:1], "engines": OPENAI, "failures": half("plain", "other"), "repeats": 2},
    "half failed alone": {"tests": ALL[:1], "engines": (VLLM,), "failures": half("vllm-bf16")},
    "the first level failed": {"tests": ALL, "failures": failing(level="c1")},
    "the last level failed": {"tests": ALL, "failures": failing(level="c16")},
    "the first repeat failed": {"tests": ALL, "failures": failing(repeat=1), "repeats": 2},
    "no scrapes": {"tests": ALL, "engines": OPENAI, **POOR},
    "nothing stated": {"tests": ALL, "engines": OPENAI, "ceilings": False, "alter": uncounted, **POOR},
    "no log": {"tests": ALL, "logs": False},
    "no model facts": {"tests": ALL, "models": False},
    "no counters": {"tests": ALL, "counters": False, "samples": False},
    "no ceilings": {"tests": ALL, "ceilings": False},
    "unsealed": {
        "tests": ALL,
        "seal": False,
        "unfinished": [
            f"{part}/r{r}" for part in ("concurrency/vllm-bf16/c16", "cliff/vllm-bf16/long") for r in (1, 2)
        ],
    },
    "a repeat missing": {"tests": ALL, "seal": False, "unfinished": ["concurrency/vllm-bf16/c4/r2"], "repeats": 2},
    "no single request": {"tests": (sweep(2, 4, 8),)},
    "a warm cache": {"tests": ALL, "prefix_hits": 0.5},
    "preemptions": {"tests": ALL, "preemptions": 40},
    "events in bunches": {"tests": (*ALL, arriving(2, 4)), "alter": bunched},
    "two alike": {"tests": ALL[:1], "engines": OPENAI, "repeats": 2},
    "Poisson arrivals": {"tests": (arriving(2, 4, 20, process="poisson"),), "repeats": 2},
    "gamma arrivals": {"tests": (arriving(2, 4, 20, process="gamma", burstiness=0.25),), "engines": (VLLM,)},
    "an overloaded engine": {"tests": (arriving(2, 20, 40, process="poisson", queue=8),), "engines": (LLAMA,)},
    "a ramp": {"tests": (arriving(2, process="ramp", to_rate=20, requests=80),)},
    "bursts": {"tests": (arriving(2, 4, process="burst", size=8),), "engines": (VLLM,)},
    "one burst": {"tests": (arriving(2, process="burst", size=40),), "engines": (VLLM,)},
    "one rate only": {"tests": (arriving(2),), "engines": (VLLM,)},
    "all arrivals failed": {"tests": (arriving(2, 4),), "failures": failing()},
    "few arrivals": {"tests": (arriving(2, 4, requests=3),), "slos": ()},
}
EVIDENCE = "evidence/index.md"


def pages(path: Path, **what: object) -> dict[str, str]:
    figures = compute(compose_round(path / "composed", **{"slos": SLOS, "repeats": 1} | what))
    shared = shared_context(figures)
    return {page.path: write(page, figures.ledger, shared).text for page in all_pages(figures) if page.path != EVIDENCE}


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Callable[[str], dict[str, str]]:
    """The pages of a case, written once for all tests of this file."""
    return cache(lambda case: pages(tmp_path_factory.mktemp("edge"), **CASES[case]))


def plain(markup: str) -> str:
    markup = re.sub(r"</(p|li|tr|h\d|dd|dt|div)>", r"</\1>\n", markup.split("---", 2)[2])
    text = html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"</t[dh]>", " | ", markup)))
    return re.sub(r"[ \t\u202f]+", " ", text)


def line(markup: str) -> str:
    return " ".join(plain(markup).split())


def read(path: Path, page: str, **what: object) -> str:
    return line(pages(path, **what)[page])


# ------------------------------------------------------------------------------------- what every page must keep


@pytest.mark.parametrize("case", CASES)
def test_every_page_of_an_edge_round_reads_sensibly(told, case):
    for name, markup in told(case).items():
        text = plain(markup)
        assert not re.search(r"None|undefined|\(\)|,\.|\.\.|;\.|:\.| ,(?! )| \.(?![\d.])", text), (name, text)
        assert [h for h in empty_sections(text) if h] == [], name
        assert "<tbody>\n</tbody>" not in markup, name
        assert [said for said in sentences(markup) if "n/a" in re.sub(r"\(n/a: [^)]*\)|\bn/a: ", "", said)] == [], name
        begun = [said for said in sentences(markup, "p") if said[:1].islower() and not said.startswith(NAMES)]
        assert begun == [], name


NAMES = ("vllm-bf16", "llamacpp-q4", "plain", "other", "normal", "llama.cpp")
# these say of a page that a cell may be n/a
ABOUT = ("† too few", "No level is flagged", "beyond the prompts asked, by the log", "What the data says")


def sentences(markup: str, tag: str = "p|li") -> list[str]:
    """The paragraphs and list items of a page, without those that speak of n/a itself and without the ceilings."""
    markup = re.sub(r'<ul class="gr-words" hidden>.*?</ul>', "", markup, flags=re.S)  # for guide.js to choose among
    found = re.findall(rf"<(?:{tag})\b[^>]*>(.*?)</(?:{tag})>", markup, re.S)
    said = (" ".join(plain(f"------{text}").split()) for text in found)
    return [re.sub(r"Ceilings: .*", "", text) for text in said if text and not text.startswith(ABOUT)]


def empty_sections(text: str) -> list[str]:
    """Headings under which nothing stands."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    level = [len(line) - len(line.lstrip("#")) for line in lines]
    after = [*level[1:], 1]
    return [line for line, own, following in zip(lines, level, after, strict=True) if own and 0 < following <= own]


def test_an_empty_section_is_found():
    assert empty_sections("# A\n## B\n## C\ntext\n### D\n") == ["## B", "### D"]


# ------------------------------------------------------------------------------------- the front page


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("a length sweep only", "This round has no concurrency sweep."),
        ("all failed", "No request of the concurrency sweep succeeded."),
        (
            "nothing stated",
            "their throughput cannot be told (n/a: the server gave no token count for some requests, and none was had afterwards)",
        ),
        (
            "one level only",
            "At C = 4, the only common load with results, vllm-bf16 is the fastest with 164 tok/s (against",
        ),
        ("one request at a time only", "At C = 1, the only load with results, vllm-bf16 delivers 45.7 tok/s."),
        ("one vLLM only", "vllm-bf16 delivers 45.7 tok/s at C = 1 and 469 tok/s at C = 16."),
        ("the challenger failed", "469 tok/s at C = 16. llamacpp-q4 completed nothing."),
        ("the first level failed", "At C = 2 llamacpp-q4 is the fastest"),
        ("the last level failed", "at C = 8 it is vllm-bf16"),
        ("one level only", "; not tested: fewer than two repeats of one of them have a result)"),
        ("two alike", "it is undecided between"),
        ("a length sweep only", "What does the challenger save, and where does it lose it? | not measured"),
        ("one vLLM only", "where does it lose it? | no challenger was measured"),
        ("the challenger failed", "it cannot be told, for one of them has no throughput"),
        ("no single request", "0.552× the throughput of vllm-bf16 at the peaks"),
        ("one level only", "vllm-bf16: it cannot be told from one shape"),
        ("one level only", "nearer to the arithmetic wall at its only length that tells"),
        ("all failed", "vllm-bf16: no request succeeded"),
        ("nothing stated", "plain completed requests, but their throughput cannot be told"),
    ],
)
def test_the_front_page_says_what_an_edge_round_allows(told, case, said):
    assert said in line(told(case)["index.md"])


@pytest.mark.parametrize(
    ("itls", "said"),
    [
        ((0.02, 0.02, 0.02, 0.035, 0.08), "past its knee at C = 4 more load buys little"),
        ((0.02, 0.04, 0.08, 0.16, 0.32), "more load buys little from the start"),
        ((0.02, 0.04, 0.04, 0.08, 0.16), "the step to C = 2 buys little, the one to C = 4 more again"),
        ((0.02, 0.02, 0.02, 0.02, 0.02), "at a p99 TTFT of"),
    ],
)
def test_the_front_page_says_where_growth_stops_only_if_it_does_to_the_end(tmp_path, itls, said):
    text = read(tmp_path, "index.md", tests=ALL[:1], engines=(VLLM,), latency=shaped(*itls))
    assert said in text
    assert ("buys little" in text) == ("little" in said)


@pytest.mark.parametrize(
    ("case", "page", "said"),
    [
        ("half failed", "index.md",
         "At C = 1 llamacpp-q4 is the fastest with 77.1 tok/s, with 8 of 16 requests failed (against 45.7 tok/s by vllm-bf16); "
         "at C = 16 it is vllm-bf16 with 468 tok/s (against 153 tok/s by llamacpp-q4 with 64 of 128 requests failed)."),
        ("half failed", "index.md", "for one user llamacpp-q4 (with 8 of 16 requests failed); p99 TTFT under 150 ms: vllm-bf16, C ="),
        ("half failed", "index.md", "for one user (llamacpp-q4 with 8 of 16 requests failed), 0.327× at the peaks (llamacpp-q4 with 64"),
        ("half failed", "concurrency/index.md", "llamacpp-q4 reaches 153 tok/s at C = 16 (with 64 of 128 requests failed)."),
        ("half failed", "head-to-head-llamacpp-q4/index.md",
         "At C = 1 llamacpp-q4 wins with 77.1 tok/s (with 8 of 16 requests failed) against 45.7 tok/s;"),
        ("half failed", "head-to-head-llamacpp-q4/index.md",
         "Requests failed, and are in none of this: at C = 1 8 of 16 by llamacpp-q4; at C = 2 8 of 16 by llamacpp-q4;"),
        ("half failed", "guide/index.md",
         "For one user llamacpp-q4 is the fastest: 77.1 tok/s (with 8 of 16 requests failed), 1.69× the 45.7 tok/s of vllm-bf16."),
        ("half failed", "guide/index.md",
         "llamacpp-q4 delivers the most up to C = 2.50 (with 8 of 16 requests failed at C = 1, and some at other loads), vllm-bf16"),
        ("half failed", "guide/index.md",
         "requests failed on these fronts, 8 of 16 of llamacpp-q4 at C = 1 and some at other levels."),
        ("half failed", "guide/index.md",
         "| vllm-bf16 | n/a | untouched | C = 10.7† | 354 tok/s† | not met at C = 1, where 8 of 16 requests failed | n/a |"),
        ("half of both failed", "index.md", "undecided between"),
        ("half of both failed", "index.md", "tok/s (with 8 of 16 requests failed) and"),
        ("half of both failed", "guide/index.md", "tok/s (with 8 of 16 requests failed) and"),
        ("half failed alone", "index.md",
         "vllm-bf16 delivers 41.3 tok/s, with 4 of 8 requests failed, at C = 1 and 368 tok/s, with 32 of 64 requests failed, at"),
        ("half failed alone", "concurrency/index.md",
         "The highest throughput is 368 tok/s, by vllm-bf16 at C = 16 (with 32 of 64 requests failed)."),
        ("half failed alone", "guide/index.md",
         "One user gets 41.3 tok/s (with 4 of 8 requests failed), and the most it delivers is 368 tok/s, at C = 16 (with 32 of"),
    ],
)  # fmt: skip
def test_a_winner_and_a_peak_say_how_many_requests_failed_for_them(told, case, page, said):
    text = told(case)[page]
    assert said in line(text.replace("</td>", " |</td>")) or said in " ".join(plain(text).split())


def test_the_failed_requests_of_a_sentence_are_linked_figures(told):
    for name in ("failed", "all_requests"):
        assert f"concurrency.llamacpp-q4.c1.{name}" in told("half failed")["index.md"]


def test_without_failed_requests_no_sentence_speaks_of_them(told):
    for page in told("two repeats").values():
        assert not re.search(r"\d of \d+ (requests failed|by|of)", line(page))


@pytest.mark.parametrize(
    ("engines", "said"),
    [
        ({"llamacpp-q4"}, "is the fastest at both ends of the range: 53.2 tok/s at C = 1 (against"),
        (
            {"vllm-bf16"},
            "is the fastest at both ends of the range: 47.3 tok/s, with 8 of 16 requests failed, at C = 1 (against",
        ),
    ],
)
def test_the_fastest_at_both_ends_says_what_failed_at_each(tmp_path, engines, said):
    what = {"latency": itl({"vllm-bf16": 0.02, "llamacpp-q4": 0.08}, 0.1), "failures": half(*engines), "repeats": 2}
    assert said in read(tmp_path, "index.md", tests=ALL[:1], **what)


def test_equal_engines_of_which_requests_failed_say_so(tmp_path):
    what = {"engines": OPENAI, "failures": half("plain", "other"), "repeats": 2, "latency": lambda *_: (0.05, 0.02)}
    text = read(tmp_path, "head-to-head-other/index.md", tests=ALL[:1], jitter=0, **what)
    assert "tok/s (requests failed: 8 of 16 by plain and 8 of 16 by other);" in text


def test_engines_without_a_common_load_are_not_compared(tmp_path):
    def apart(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        keeps = {"vllm-bf16": "c1", "llamacpp-q4": "c4"}
        return None if level == keeps[engine] else Failure(kind="connect")

    text = read(tmp_path, "index.md", tests=(sweep(1, 4),), failures=apart)
    assert "At C = 1 vllm-bf16 delivers 45.7 tok/s; at C = 4 llamacpp-q4 delivers 145 tok/s." in text
    assert "cross" not in text.split("## Reports")[0]


def test_curves_that_cross_in_part_of_a_sweep_are_said_to(tmp_path):
    assert "deliver the same throughput at C = 3.32" in read(tmp_path, "index.md", tests=ALL[:1])
    slower = read(tmp_path / "b", "index.md", tests=ALL[:1], latency=itl({"vllm-bf16": 0.01, "llamacpp-q4": 0.02}))
    assert "vllm-bf16 is the fastest at both ends of the range" in slower
    assert "deliver the same throughput (none in the measured range: vllm-bf16 dominates from C = 1 to 16)" in slower


# ------------------------------------------------------------------------------------- 01


def itl(values: dict[str, float], growth: float = 0.5) -> Callable:
    return lambda engine, c, repeat: (0.001, values[engine] * c**growth)


def shaped(*itls: float) -> Callable:
    """An ITL a level of C = 1, 2, 4, 8, 16."""
    return lambda engine, c, repeat: (0.001, itls[(1, 2, 4, 8, 16).index(c)])


def curve(path: Path, latency: Callable | None = None, **what: object) -> str:
    return read(path, "concurrency/index.md", **{"tests": ALL[:1], "engines": (VLLM,), "latency": latency} | what)


def usl(sigma: float, kappa: float) -> Callable:
    return shaped(*(0.02 * (1 + sigma * (c - 1) + kappa * c * (c - 1)) for c in (1, 2, 4, 8, 16)))


@pytest.mark.parametrize(
    ("latency", "said"),
    [
        (shaped(0.02, 0.02, 0.02, 0.035, 0.08), "From C = 4 on, more load buys vllm-bf16 more latency than throughput: "
         "the step to C = 8 has an elasticity of 0.1"),
        (shaped(0.02, 0.04, 0.04, 0.04, 0.04), "vllm-bf16 buys more latency than throughput with the step from C = 1 to 2 (elasticity"),
        (shaped(0.02, 0.04, 0.04, 0.04, 0.04), "and more throughput again with the one to C = 4 ("),
        (shaped(0.02, 0.02, 0.04, 0.04, 0.04), "with the step from C = 2 to 4 (elasticity"),
        (itl({"vllm-bf16": 0.02}, 0.9), "is past its knee from the first step on: that from C = 1 to C = 2 has an elasticity"),
        (itl({"vllm-bf16": 0.02}, 0.1), "has no knee in the range: each step still buys more throughput than latency"),
    ],
    ids=["inside", "first step", "grows again", "second step", "at the start", "beyond"],
)  # fmt: skip
def test_the_knee_is_told_where_it_is(tmp_path, latency, said):
    assert said in curve(tmp_path, latency)


def test_one_load_has_neither_knee_nor_price(tmp_path):
    text = curve(tmp_path, tests=(sweep(4),))
    assert "No knee can be told from one load with results, as on vllm-bf16." in text
    assert "ms at C = 4 on vllm-bf16. One load has no other to be held against" in text
    assert "Without results at one request in flight there is nothing to hold the other loads against." in text
    assert "Too few levels have a throughput for a fit (n/a: no fit: fewer than 5 levels)." in text


@pytest.mark.parametrize(
    ("latency", "said"),
    [
        (usl(0.05, 0.02), "inside the measured loads: beyond it more load costs throughput"),
        (usl(0.3, 0.0005), "beyond the largest measured load, so where it really peaks is a guess"),
        (None, "has no peak, it levels off"),
        (shaped(0.02, 0.04, 0.08, 0.16, 0.08), "of its mean, so nothing is read off it"),
    ],
    ids=["inside", "beyond", "levels off", "poor"],
)
def test_the_fit_is_told_as_it_runs(tmp_path, latency, said):
    assert said in curve(tmp_path, latency)


def quantity(value: float | None):
    from genreport.provenance import Quantity

    return Quantity("q", value, "1", "q", reason=None if value is not None else "none")


@pytest.mark.parametrize(
    ("fit", "case"),
    [
        ((1, 0.9, 0.5, 0.4, 0.05), "before"),
        ((1, 0.1, 0.1, 3.0, 0.05), "inside"),
        ((1, 0.1, 0.001, 30.0, 0.05), "beyond"),
        ((1, 1.0, 0.1, None, 0.05), "falls"),
        ((1, 0.1, 0.0, None, 0.05), "levels"),
        ((1, 0.0, 0.0, None, 0.05), "linear"),
        ((None, None, None, None, None), "unknown"),
        ((1, 0.1, 0.0, None, 0.11), "poor"),
        ((1, 0.1, 0.0, None, None), "levels"),
    ],
)
def test_the_case_of_a_fit_follows_from_its_parameters(fit: Sequence[float | None], case: str):
    names = ("lambda", "sigma", "kappa", "peak", "residual")
    found = {name: quantity(value) for name, value in zip(names, fit, strict=True)}
    assert concurrency._usl_case(found, 1, 16) == case


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({}, "the walls cross at C = 2.97"),
        (
            {"tests": (sweep(8, 16),)},
            "no crossing (n/a: the walls do not meet in the measured range: the share of FLOP/s stays the larger one).",
        ),
        ({"tests": (sweep(1, 2),)}, "the share of bandwidth stays the larger one)."),
        (
            {"ceilings": False},
            "whether the walls cross cannot be told (n/a: no ceiling of bandwidth was measured or cited).",
        ),
    ],
    ids=["cross", "arithmetic", "memory", "unknown"],
)
def test_the_walls_are_told_as_they_stand(tmp_path, what, said):
    assert said in curve(tmp_path, **what)


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"tests": (sweep(1),)}, "The level ran once, with prompts of its own."),
        ({"tests": (sweep(1),), "repeats": 2}, "The level ran 2 times, each time with prompts of its own."),
        ({}, "Every level ran once, with prompts of its own."),
        ({"repeats": 2}, "Every level ran 2 times, in turn with the others, each time with prompts of its own."),
        (
            {"seal": False, "repeats": 2, "unfinished": ["concurrency/vllm-bf16/c4/r2"]},
            "Levels ran 1 to 2 times, each time with prompts",
        ),
    ],
)
def test_how_often_the_levels_ran_is_told(tmp_path, what, said):
    assert said in curve(tmp_path, **what)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("the challenger failed", "llamacpp-q4 reaches nothing: all its requests failed."),
        ("the challenger failed", "llamacpp-q4 cannot be made, too few levels have a throughput (n/a: "),
        (
            "the last level failed",
            "between the first and the last level with results TTFT p50 goes from 50.0 ms to 120 ms",
        ),
        ("all failed", "No request of this sweep succeeded, so there is no curve"),
        ("all failed", "vllm-bf16: no gap between tokens was seen."),
        (
            "nothing stated",
            "Requests completed, but their throughput cannot be told (n/a: the server gave no token count",
        ),
        (
            "nothing stated",
            "The price: between the first and the last level TTFT p50 goes from",
        ),
    ],
)
def test_the_curve_says_what_failed(told, case, said):
    assert said in line(told(case)["concurrency/index.md"])


# ------------------------------------------------------------------------------------- 02, 03, 04


@pytest.mark.parametrize(
    ("page", "case", "said"),
    [
        ("ttft", "one level only", "vllm-bf16 has results at one level only, so nothing can grow: of its mean wait of"),
        ("ttft", "one level only", "At this level, time in a queue before the engine takes the prompt up is"),
        ("ttft", "the challenger failed", "No request succeeded on llamacpp-q4."),
        ("ttft", "the last level failed", "Between the first and the last level with results, on vllm-bf16"),
        ("ttft", "no scrapes", "No engine of this sweep told what its steps hold."),
        ("ttft", "all failed", "vllm-bf16: no prompt was served."),
        ("ttft", "no counters", "vllm-bf16: it cannot be told, for want of the engine's counters."),
        ("ttft", "a warm cache", "its cache helped at C = 1 (50 % of the prompt tokens)"),
        ("kv", "one level only", "Prompts of one length at one load: C = 4 requests in flight in a closed loop, 16 tokens out, 64"),
        ("kv", "one level only", "if it were 1.28×≤ as high, both walls would be equally near;"),
        ("kv", "the challenger failed", "cannot be told (n/a: the start-up log does not say). No request succeeded on llamacpp-q4."),
        ("kv", "a length sweep only", "Length against load: this round has no concurrency sweep to hold the lengths against."),
        ("kv", "a length sweep only", "The points of the length sweep stand in the table above."),
        ("kv", "no scrapes", "No engine of this round announced anything, for want of a start-up log that says so."),
        ("kv", "no scrapes", "Whether there is a length at which the shares of both ceilings are equal cannot be told (n/a: no"),
        ("kv", "no log", "whatever its slots hold later"),
        ("cliff", "one level only", "The test ran with one shape only (normal on vllm-bf16, normal on llamacpp-q4)"),
        ("cliff", "one level only", "No advice without a second shape"),
        ("cliff", "all failed", "32 requests a repeat, one repeat;"),
        ("cliff", "all failed", "0 requests completed and 32 failed there, 0 completed and 32 failed at normal."),
        ("cliff", "all failed", "No request succeeded, so there was no wait to take apart."),
        ("cliff", "no log", "at C = 16 the shape long changes little: ITL p50 stays normal"),
        ("cliff", "no log", "All of it ran on one start of the engine."),
        ("cliff", "no scrapes", "No engine of this test tells its room or how many requests it runs."),
        ("cliff", "no scrapes", "No engine of this test lets it be counted."),
        ("cliff", "no scrapes", "Watch on plain: ITL p50 (here 23.0 ms). TTFT (200 ms) is its result."),
        ("cliff", "preemptions", "yet 40 preemptions show that its KV ran full, so the edge is near"),
        ("cliff", "preemptions", "preemptions (40). TTFT (200 ms) is their result."),
        ("cliff", "one llama.cpp only", "yet its KV was full (at most 103 % in use), so the edge is near"),
        ("cliff", "one llama.cpp only", "running on average, as many as it announced (16)."),
        ("cliff", "one llama.cpp only", "only the counter of llamacpp-q4 tells: 0 tokens of prefill beyond the prompts asked"),
        ("cliff", "no counters", "--max-num-seqs to 42: the pool of 46,592 tokens over 1,024 tokens in and 64 tokens out holds"),
        ("head-to-head-other", "nothing stated", "plain completed requests, but its throughput cannot be told: the server gave no"),
        ("head-to-head-other", "nothing stated", "so there is no throughput to compare."),
        ("head-to-head-llamacpp-q4", "the challenger failed", "completed no request at any level that both ran"),
        ("head-to-head-llamacpp-q4", "one level only", "throughput: vllm-bf16 is ahead at C = 4 (not tested)."),
        ("head-to-head-llamacpp-q4", "one level only", "held against a step: no common level at C = 1."),
        ("guide", "nothing stated", "requests completed, but their throughput cannot be told, so nothing here speaks for an engine."),
        ("guide", "nothing stated", "64 tokens in, 16 tokens out, C requests in flight"),
        ("guide", "all failed", "No request of this sweep succeeded, so nothing here speaks for an engine."),
        ("guide", "no scrapes", "No engine of this round announced one."),
    ],
)  # fmt: skip
def test_a_report_says_what_an_edge_round_allows(told, page, case, said):
    assert said in line(told(case)[f"{page}/index.md"])


def test_walls_that_turn_and_turn_back_are_not_said_to_stay():
    from genreport.reports.kv import _wall_case

    cases = (["memory"], ["memory", "memory"], ["memory", "arithmetic"], ["memory", "arithmetic", "memory"], [])
    assert [_wall_case(nearer) for nearer in cases] == ["one", "stays", "turns", "wavers", "unknown"]


def test_the_guide_leaves_out_what_no_engine_shows(told):
    for case in ("all failed", "the challenger failed", "one level only", "nothing stated", "no scrapes"):
        answer, _, rest = line(told(case)["guide/index.md"]).partition("Who asks?")
        assert "n/a" not in answer.partition("Evidence")[0], case
        advice = rest.partition("Set the limit first")[2].partition("Compare the output tokens")[0]
        assert "n/a" not in advice, case


# ------------------------------------------------------------------------------------- plans of others


ODD = {
    "id": ["x"],
    "figure": ["ttft"],
    "percentile": {"a": 1},
    "below_ms": [1],
    "test": 5,
    "against_round": 5,
    "text": 5,
}
LIMIT = {"figure": "ttft", "below_ms": 100}
PLANS = {
    "numbers": dict.fromkeys(("slos", "hypotheses", "tests", "engines", "prices"), 5),
    "texts": dict.fromkeys(("slos", "hypotheses", "tests", "engines", "prices"), "text"),
    "mappings": {key: {"a": 1} for key in ("slos", "hypotheses", "tests", "engines", "prices")},
    "lists of anything": {key: [5, None, ["a"], {}, ODD] for key in ("slos", "hypotheses", "tests", "engines")},
    "limits of anything": {
        "slos": [LIMIT | {"below_ms": 10**400}, LIMIT | {"below_ms": True}, LIMIT | {"percentile": 5, "id": 5}],
        "hypotheses": [{"id": 5, "test": 5, "rises_by_more_than": 10**400}],
    },
}


@pytest.mark.parametrize("odd", [5, {"a": 1}, [4711, "the weather", None]], ids=["number", "mapping", "list"])
def test_what_a_plan_did_not_measure_is_shown_whatever_it_is(tmp_path, odd):
    found = pages(tmp_path, tests=(sweep(1),), plan={"not_measured": odd})
    shown = [page for page in ("index.md", "guide/index.md") if "4711" in line(found[page])]
    assert shown == (["index.md", "guide/index.md"] if isinstance(odd, list) else [])


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_that_holds_anything_is_read_as_far_as_it_goes(tmp_path, plan):
    made = compose_round(tmp_path / "composed", tests=(sweep(1, 2), arriving(2, requests=8)), repeats=1, plan=plan)
    figures = compute(made)
    judged, shared = judge(figures), shared_context(figures)
    assert claims(figures) == set()
    assert all(write(page, figures.ledger, shared).text for page in all_pages(figures, judged=judged))


# ------------------------------------------------------------------------------------- colours


def charts_in(node: object) -> Iterator[Chart]:
    if isinstance(node, Chart):
        yield node
    elif isinstance(node, (dict, list, tuple)):
        for part in node.values() if isinstance(node, dict) else node:
            yield from charts_in(part)


def test_an_engine_has_one_colour_on_all_pages_of_a_site_of_several_rounds(tmp_path):
    figures = compute(compose_round(tmp_path / "composed", tests=(*ALL, arriving(2, 4))), palette=("of-another-round",))
    drawn = {
        (page.path, chart.name, row["engine"], row["colour"])
        for page in all_pages(figures)
        for chart in charts_in(page.context)
        for rows in chart.spec["datasets"].values()
        for row in rows
        if "colour" in row
    }
    assert {"throughput", "lanes", "ratios"} <= {chart for _, chart, _, _ in drawn}
    assert {place[2:] for place in drawn} == {("vllm-bf16", "2"), ("llamacpp-q4", "3")}
