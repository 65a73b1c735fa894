"""What a page may print, and what becomes of text from servers and plans."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
import yaml

from audited import digits
from compose import Engine, Load, Test, compose_round, sweep
from genreport.errors import BuildError
from genreport.figures import Flag, compute
from genreport.pages import Printer, _environment, write
from genreport.publish import pages_of
from genreport.records import Failure
from genreport.reports import all_pages
from genreport.rounds import Round
from genreport.words import catalogue

SOURCES = Path(__file__).parents[1] / "generator" / "genreport"
TEMPLATES = Path(__file__).parents[1] / "templates"
HOSTILE = '<script>alert(1)</script> {{ 7 * 7 }} {% raw %} | `x` *y* [z](javascript:1) \x07 "quoted" &amp;'


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Round:
    path = tmp_path_factory.mktemp("pages") / "composed"
    compose_round(path)
    return Round(path)


def texts(round: Round) -> dict[str, str]:
    return dict(pages_of(round).pages)


@pytest.fixture(scope="module")
def composed_texts(composed: Round) -> dict[str, str]:
    return texts(composed)


def render(round: Round, template: str) -> str:
    printer = Printer(compute(round).ledger, "")
    return _environment(printer).from_string(template).render()


def test_a_template_cannot_print_a_bare_number(composed):
    with pytest.raises(BuildError, match="bare number 3"):
        render(composed, "{% set x = 3 %}{{ x }}")


def test_a_quantity_prints_as_a_link_to_its_derivation(composed):
    text = render(composed, '{{ fig("concurrency.vllm-bf16.c4.ttft.p50") }}')
    assert re.fullmatch(
        r'<a class="gr-num" href="figures/\S+#concurrency\.vllm-bf16\.c4\.ttft\.p50" data-id=.*</a>', text
    )


def test_a_missing_quantity_prints_na_and_leads_to_its_reason(composed):
    text = render(composed, '{{ fig("concurrency.vllm-bf16.c1.elasticity") }}')
    assert "#concurrency.vllm-bf16.c1.elasticity" in text
    assert "n/a</a>" in text
    assert "title=" not in text


@pytest.mark.parametrize(
    ("figure", "mark"),
    [("concurrency.vllm-bf16.c4.mfu", "≤"), ("engine.vllm-bf16.flops_ceiling", "≥"), ("concurrency.vllm-bf16.walls_cross", "≥")],
)  # fmt: skip
def test_a_share_of_a_ceiling_that_is_a_lower_bound_is_at_most_so_much_and_the_ceiling_at_least(figure, mark, composed):
    assert f'data-note="lower_bound">{mark}</sup>' in render(composed, f'{{{{ fig("{figure}") }}}}')


def test_a_flag_names_each_of_its_numbers_and_says_once_what_follows(composed):
    figures, level = compute(composed), "concurrency.vllm-bf16.c4"
    lags = [Flag(level, "client_lag", (f"{level}.client_lag.p99", f"{level}.itl.p50"))] * 2
    printer = Printer(figures.ledger, "")
    template = '{% import "_parts.html" as parts with context %}{{ parts.flag_list(flags) }}'
    text = re.sub(r"<[^>]+>", "", _environment(printer).from_string(template).render(flags=lags))
    assert re.search(r"client late \(lag p99 [\d.]+\sµs†? against ITL p50 [\d.]+\s?ms\)", text), text
    assert text.count("client late: ") == 1


def test_every_kind_of_flag_says_what_follows_from_it():
    assert catalogue()["flag"].keys() == catalogue()["flag_means"].keys()


def test_a_number_on_a_page_without_a_site_says_where_it_comes_from_by_itself(composed):
    printer = Printer(compute(composed).ledger, "")
    printer.alone = True
    assert "no level before it" in printer.number("concurrency.vllm-bf16.c1.elasticity")


TITLED = ("front.md", "head-to-head.md", "against.md", "against-test.md")


def test_no_template_formats_a_number():
    forbidden = re.compile(r"\|\s*(round|int|float|format|string|tojson|filesizeformat|sum)\b|\{\{[^}]*['\"]%")
    for template in TEMPLATES.iterdir():
        found = [m[0] for m in forbidden.finditer(template.read_text("utf-8"))]
        # a title in front matter is text that YAML must read
        assert found == [] or (all("tojson" in f for f in found) and template.name in TITLED)


def test_each_third_party_library_has_its_room():
    rooms = {"altair": {"charts/"}, "jinja2": {"pages.py", "site/shell.py"}, "vl_convert": {"site/bundle.py"},
             "scipy": {"figures/scaling.py", "figures/statistics.py"}, "click": {"cli.py", "embedded.py", "nullserver.py"},
             "rich": {"progress.py"}}  # fmt: skip
    for path in SOURCES.rglob("*.py"):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in {n.split(".")[0] for n in names} & rooms.keys():
                assert place.startswith(tuple(rooms[name])), f"{place} imports {name}"


def test_hostile_names_are_shown_as_text_and_leave_the_page_whole(tmp_path):
    compose_round(tmp_path / "hostile", seal=False)
    for path in (tmp_path / "hostile" / "launches").rglob("launch.json"):
        facts = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps(facts | {"model": HOSTILE, "version": HOSTILE}), "utf-8")
    plan = tmp_path / "hostile" / "plan.yaml"
    plan.write_text(json.dumps(yaml.safe_load(plan.read_text("utf-8")) | {"not_measured": [HOSTILE]}), "utf-8")
    for text in texts(Round(tmp_path / "hostile")).values():
        assert "<script" not in text
        assert "alert(1)" not in text or "&lt;script&gt;alert(1)" in text
        assert "{{ 7 * 7 }}" in text or HOSTILE[:7] not in text.replace("&lt;", "<")


@pytest.mark.parametrize(
    "what",
    [
        {"tests": (sweep(1),)},
        {"tests": (sweep(1, 2),), "engines": (Engine("only"),)},
        {"tests": (sweep(1, 2, 4),), "repeats": 1},
        {"counters": False, "samples": False, "logs": False, "models": False, "ceilings": False},
        {"failures": lambda *_: Failure(kind="connect", message=HOSTILE)},
        {"tests": (Test("cliff", "cliff", (Load("normal", 4), Load("long", 4, 64, 64))),)},
        {"unfinished": ["concurrency/vllm-bf16/c4/r1"], "seal": False},
    ],
    ids=["one level", "one engine", "one repeat", "no counters", "all failed", "cliff only", "unfinished"],
)
def test_a_poor_round_builds_and_says_what_it_lacks(tmp_path, what):
    compose_round(tmp_path / "poor", **what)
    found = texts(Round(tmp_path / "poor"))
    assert {"index.md", "concurrency/index.md", "ttft/index.md", "kv/index.md", "cliff/index.md", "guide/index.md",
            "evidence/index.md"} <= found.keys()  # fmt: skip
    assert not any("None" in re.sub(r"<[^>]+>", "", text) for text in found.values())


def test_what_the_recorder_remarked_is_told_with_the_line_that_says_it(tmp_path):
    key = "concurrency/vllm-bf16/c1/r2"
    round = compose_round(tmp_path / "noted", remarks={key: ["worker 2 of 4 died", HOSTILE]})
    text = texts(round)["index.md"]
    for line, told in (('  "worker 2 of 4 died",', "worker 2 of 4 died"), (f"  {json.dumps(HOSTILE)}", "alert(1)")):
        place = round.text(f"levels/{key}/facts.json").splitlines().index(line) + 1
        assert re.search(rf'<a href="sources/levels/{key}/facts\.json\.html#L{place}">.*{re.escape(told)}', text)
    assert digits(round.path, text) == []
    assert "<script" not in text
    assert "Noted while recording" not in texts(compose_round(tmp_path / "plain"))["index.md"]


def test_an_unsealed_round_is_marked_as_a_preview(tmp_path):
    compose_round(tmp_path / "open", seal=False)
    assert all("Preview" in text for path, text in texts(Round(tmp_path / "open")).items())


def throughput(values: dict[str, float]):
    """Latencies under which each engine's ITL at C = 1 … 16 is its value times √C."""
    return lambda engine, c, repeat: (0.01, values[engine] * c**0.5)


def page(tmp_path: Path, path: str, **what: object) -> str:
    compose_round(tmp_path / "case", **what)
    text = texts(Round(tmp_path / "case"))[path]
    return " ".join(re.sub(r"<[^>]+>", "", text).split())


def test_engines_that_cross_are_said_to_cross(tmp_path):
    text = page(tmp_path, "head-to-head-llamacpp-q4/index.md")
    assert "Their throughput crosses at C = " in text
    assert "llamacpp-q4 wins with" in text
    assert "vllm-bf16 wins with" in text


def test_engines_that_do_not_cross_are_said_not_to(tmp_path):
    text = page(
        tmp_path, "head-to-head-llamacpp-q4/index.md", latency=throughput({"vllm-bf16": 0.01, "llamacpp-q4": 0.02})
    )
    assert "does not cross in the measured range" in text
    assert "llamacpp-q4 wins" not in text


@pytest.mark.parametrize(
    ("growth", "said"),
    [(0.2, "has no knee in the range"), (0.9, "past its knee from the first step on")],
    ids=["above the range", "at its start"],
)
def test_the_knee_is_told_as_it_is(tmp_path, growth, said):
    text = page(tmp_path, "concurrency/index.md", latency=lambda engine, c, repeat: (0.001, 0.02 * c**growth))
    assert said in text


def test_percentiles_of_itl_stand_beside_the_number_of_gaps(tmp_path):
    compose_round(tmp_path / "case")
    markup = texts(Round(tmp_path / "case"))["concurrency/index.md"]
    text = " ".join(re.sub(r"<[^>]+>", " ", markup).split())
    assert "C requests p50 p90 p99 vllm-bf16 1 16 " in text
    assert "C gaps p50 p90 p99 vllm-bf16 1 240 " in text  # fifteen gaps of each of sixteen answers


def test_the_same_round_gives_the_same_bytes(composed, composed_texts):
    assert composed_texts == texts(Round(composed.path))


def test_every_page_prints_figures_of_the_ledger_only(composed):
    figures = compute(composed)
    from genreport.pages import shared_context

    shared = shared_context(figures)
    for each in all_pages(figures):
        if each.slug != "evidence":
            assert write(each, figures.ledger, shared).figures <= {q.id for q in figures.ledger}


GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    "path", ["index.md", "concurrency/index.md", "head-to-head-llamacpp-q4/index.md", "evidence/index.md"]
)
def test_a_page_reads_as_its_golden_one(composed_texts, path):
    """What a reader sees, without markup; a difference leaves the new text beside the old one."""
    golden = GOLDEN / (path.removesuffix("/index.md").removesuffix(".md") + ".txt")
    seen = re.sub(r"<[^>]+>", " ", composed_texts[path])
    seen = "\n".join(line for line in (" ".join(line.split()) for line in seen.split("\n")) if line) + "\n"
    if not golden.is_file() or golden.read_text("utf-8") != seen:
        golden.with_suffix(".txt.new").write_text(seen, "utf-8")
        pytest.fail(f"{golden.name} reads differently; compare it with {golden.name}.new")
