"""What the charts of a whole round draw: names, directions, limits, crossings, ranges, and where their points lead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from compose import ENGINES, Load, Test, arriving, compose_round, lengths, sweep
from genreport.charts import Chart
from genreport.charts.colours import PAPER
from genreport.display import shown
from genreport.figures import Figures, compute
from genreport.places import derivation_href
from genreport.provenance import Rows
from genreport.reports import all_pages
from genreport.words import say

H2H = "head-to-head-llamacpp-q4"
SLOW = {"id": "slow", "figure": "ttft", "percentile": "p99", "below_ms": 100}
TALKS = Test("talk", "conversation", (Load("c2", 2, requests=12, turns=3),))
SOAK = Test("soak", "soak", (Load("c4", 4, requests=120, lasts_s=12, grows=2**20),))
FLAGGED = {"c4", "in128", "q4"}  # of the soak too, whose points are no levels

# (page, chart) -> which way is better; a chart that is not here draws no values of which more or less is better
BETTER = {
    "higher": [("concurrency", "throughput"), ("concurrency", "efficiency"), ("concurrency", "usl"), (H2H, "throughput"),
               (H2H, "attainment"), ("arrivals", "achieved")],
    "lower": [*(("concurrency", f"latency_{name}") for name in ("ttft", "itl", "e2el")), ("concurrency", "ecdf"),
              ("ttft", "anatomy"), (H2H, "latency_ttft"), (H2H, "floor"), (H2H, "stall_share"), ("arrivals", "waits"),
              ("conversations", "turns"), ("soak", "soak")],
}  # fmt: skip
# what names the lines of a chart at their ends
LABELLED = [
    ("concurrency", "throughput", "engine"), ("concurrency", "efficiency", "engine"), ("concurrency", "usl", "engine"),
    ("concurrency", "latency_ttft", "percentile"), ("concurrency", "latency_itl", "percentile"), ("concurrency", "walls", "wall"),
    ("ttft", "tokens_per_iteration", "engine"), ("kv", "length_intensity", "engine"), (H2H, "throughput", "engine"),
    (H2H, "floor", "measure"), (H2H, "attainment", "engine"), (H2H, "stall_share", "engine"), (H2H, "wave_index", "engine"),
    ("guide", "pareto", "engine"),
]  # fmt: skip
# those whose values have the range of their repeats, and the mark that shows it
RANGED = [("concurrency", "throughput", "area"), (H2H, "throughput", "area"), (H2H, "latency_ttft", "area"), (H2H, "floor", "area"),
          (H2H, "ratio", "rule")]  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """The charts of a round, as (page, chart)."""

    figures: Figures
    charts: tuple[tuple[str, Chart], ...]

    def of(self, page: str, name: str) -> list[Chart]:
        found = [chart for where, chart in self.charts if (where, chart.name) == (page, name)]
        assert found, f"{page} draws no {name}"
        return found


def charts_in(node: object) -> Iterator[Chart]:
    if isinstance(node, Chart):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, (list, tuple)) else ():
        yield from charts_in(part)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Drawn:
    """Of levels with all that a chart can show, some of them flagged for a late client."""
    tests = (sweep(1, 2, 4, 8, 16), lengths(64, 128, 256), arriving(2, 4), TALKS, SOAK)
    late = dict.fromkeys(FLAGGED, 9_000)
    path = tmp_path_factory.mktemp("drawn") / "composed"
    figures = compute(compose_round(path, tests=tests, slos=(SLOW,), lag_us=late))
    pages = ((page.path.rpartition("/")[0], page.context) for page in all_pages(figures))
    return Drawn(figures, tuple((path, chart) for path, context in pages for chart in charts_in(context)))


def layers(chart: Chart, mark: str) -> list[tuple[dict, list[dict]]]:
    """The layers of one kind of mark, each with the rows that it draws."""
    plain = (layer for layer in chart.spec["layer"] if "mark" in layer)
    return [(layer, chart.spec["datasets"][layer["data"]["name"]]) for layer in plain if layer["mark"]["type"] == mark]


def test_every_chart_whose_values_are_better_one_way_says_which(drawn: Drawn) -> None:
    said = {(page, chart.name): chart.spec["usermeta"]["better"] for page, chart in drawn.charts}
    wanted = {place: say(f"chart.{way}") for way, places in BETTER.items() for place in places}
    wanted["guide", "pareto"] = say("guide_chart.better")
    assert {place: better for place, better in said.items() if better} == wanted


@pytest.mark.parametrize(("page", "name", "by"), LABELLED)
def test_every_line_has_its_name_at_its_last_point(drawn: Drawn, page: str, name: str, by: str) -> None:
    for chart in drawn.of(page, name):
        points = [
            row for layer, rows in layers(chart, "point") if "href" in layer["encoding"] for row in rows if by in row
        ]
        labels = [(layer, rows) for layer, rows in layers(chart, "text") if layer["encoding"]["text"]["field"] == by]
        assert {row[by] for _, rows in labels for row in rows} == {row[by] for row in points}
        for layer, (row,) in labels:
            line = [other for other in points if (other["engine"], other[by]) == (row["engine"], row[by])]
            along = layer["encoding"]["x"]["field"]
            assert row[along] == max(other[along] for other in line if other.get("front", True))


def test_lines_without_a_label_have_a_key(drawn: Drawn) -> None:
    for page, name in (("concurrency", "ecdf"), ("arrivals", "achieved"), ("arrivals", "waits"), (H2H, "latency_ttft")):
        for chart in drawn.of(page, name):
            keys = [layer["encoding"].get("color", {}).get("legend") for layer, _ in layers(chart, "line")]
            assert any(keys), (page, name)


@pytest.mark.parametrize(("page", "name", "mark"), RANGED)
def test_ranges_reach_from_the_least_to_the_most_of_the_repeats(drawn: Drawn, page: str, name: str, mark: str) -> None:
    ledger = drawn.figures.ledger
    ranges = [
        (layer, rows)
        for chart in drawn.of(page, name)
        for layer, rows in layers(chart, mark)
        if layer["encoding"].get("y", {}).get("field") == "low"
    ]
    assert ranges
    for layer, rows in ranges:
        assert layer["encoding"]["y2"]["field"] == "high"
        for row in rows:
            low, high = ("low", "high") if name == "ratio" else ("min", "max")
            assert (row["low"], row["high"]) == tuple(ledger[f"{row['value_id']}.{end}"].value for end in (low, high))
    assert any(row["low"] < row["high"] for _, rows in ranges for row in rows)


@pytest.mark.parametrize(("page", "name", "field"), [("guide", "pareto", "wait"), ("arrivals", "waits", "value")])
def test_service_levels_are_lines_with_their_limit_beside_them(drawn: Drawn, page: str, name: str, field: str) -> None:
    for chart in drawn.of(page, name):
        lines = [row for _, rows in layers(chart, "rule") for row in rows if row.get(field) == SLOW["below_ms"] / 1000]
        texts = [row for _, rows in layers(chart, "text") for row in rows if row.get(field) == SLOW["below_ms"] / 1000]
        assert lines
        assert all(shown(0.1, "s") in row["label"] for row in texts)
        assert texts


@pytest.mark.parametrize(("page", "name", "field", "figure"), [
    (H2H, "throughput", "concurrency", "pair.concurrency.vllm-bf16.llamacpp-q4.cross1"),
    ("concurrency", "walls", "concurrency", "concurrency.vllm-bf16.walls_cross"),
    ("guide", "pareto", "wait", "pair.concurrency.vllm-bf16.llamacpp-q4.front1"),
])  # fmt: skip
def test_a_crossing_is_a_line_with_words_that_lead_to_its_derivation(drawn: Drawn, page, name, field, figure) -> None:
    at = drawn.figures.ledger[figure].value
    found = [
        (mark, layer, row)
        for chart in drawn.of(page, name)
        for mark in ("rule", "text")
        for layer, rows in layers(chart, mark)
        for row in rows
        if row.get(f"{field}_id") == figure
    ]
    assert {mark for mark, _, _ in found} == {"rule", "text"}
    for mark, layer, row in found:
        assert row[field] == at
        assert row["href"] == derivation_href(figure)
        assert mark == "rule" or (layer["encoding"]["href"]["field"], bool(row["label"])) == ("href", True)


def test_points_lead_to_the_records_of_their_level_or_to_their_derivation(drawn: Drawn) -> None:
    recorded = 0
    for _, chart in drawn.charts:
        for layer, rows in layers(chart, "point"):
            assert layer["encoding"]["href"]["field"] == "href", chart.name
            for row in rows:
                id = row["value_id"].partition("[")[0]
                picked = any(isinstance(source, Rows) and source.picks for source in drawn.figures.ledger[id].sources)
                if "level" not in row or chart.name in ("ecdf", "kv_use") or not picked:
                    continue
                test, engine, level = id.split(".")[:3]
                assert row["href"].startswith(f"sources/levels/{test}/{engine}/{level}/r"), chart.name
                assert "/requests.jsonl.html#L" in row["href"]
                recorded += 1
    assert recorded > 100


def test_flagged_levels_are_hollow_in_every_chart_and_no_other_is(drawn: Drawn) -> None:
    hollow: dict[tuple[str, str], set[str]] = {}
    for page, chart in drawn.charts:
        for layer, rows in layers(chart, "point"):
            told = [row for row in rows if "flag" in row]
            assert {bool(row["flag"]) for row in told} <= {layer["mark"].get("fill") == PAPER}, (page, chart.name)
            for row in told:
                assert bool(row["flag"]) == (row["level"] in FLAGGED), (page, chart.name)
                hollow.setdefault((page, chart.name), set()).update([row["level"]] if row["flag"] else [])
    assert {place for place, levels in hollow.items() if not levels} == set()
    assert len(hollow) > 15


def test_both_engines_are_drawn(drawn: Drawn) -> None:
    for page, name in (("concurrency", "throughput"), ("guide", "pareto"), ("arrivals", "waits")):
        rows = [row for chart in drawn.of(page, name) for _, rows in layers(chart, "point") for row in rows]
        assert {row["engine"] for row in rows if "engine" in row} == {engine.id for engine in ENGINES}
