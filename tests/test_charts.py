"""Charts: what a specification holds, says and never does."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path

import altair as vega
import numpy as np
import pytest

from genreport import charts
from genreport.charts import against, arrivals, arrivals_time, cliff, effects, history, kv
from genreport.charts.colours import ENGINE_COLOURS, GROUP_COLOURS, PAPER, RAMP_COLOURS
from genreport.charts.marks import LABEL_GAP, apart
from genreport.provenance import Line, Quantity

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
LEVELS = (1, 2, 4, 8)


def rows(engine="vllm", colour="1", values=(30.0, 60.0, 110.0, 180.0), **more):
    return [
        {
            "engine": engine, "colour": colour, "level": f"c{c}", "flag": "", "concurrency": c,
            "concurrency_id": f"t.{engine}.c{c}.concurrency", "value": value, "value_id": f"t.{engine}.c{c}.x",
            "shown": f"{value:g} tok/s", "href": f"sources/{engine}/c{c}.html#L3", **more,
        }
        for c, value in zip(LEVELS, values, strict=True)
    ]  # fmt: skip


def crossing(value=5.5):
    return Quantity("pair.t.a.b.cross1", value, "requests", "x", sources=(Line("f", 1, "x"),))


def curve(engine="vllm", level="c1"):
    shares = ("0", "0.5", "0.9", "0.99", "1")
    return [
        {
            "engine": engine, "colour": "1", "level": level, "share": share, "value": 0.01 * (k + 1),
            "value_id": f"t.{engine}.{level}.itl_ecdf[{k}]", "shown": f"{10 * (k + 1)} ms", "href": "figures/x.html#y",
        }
        for k, share in enumerate(shares)
    ]  # fmt: skip


def every_chart():
    both = rows() + rows("llama", "2", (60.0, 80.0, 95.0, 100.0))
    bytes_ = [r | {"group": group} for group in ("embedding", "mlp") for r in both if r["level"] == "c1"]
    return [
        charts.throughput(both, crossings=[crossing()]),
        charts.efficiency(both),
        charts.attainment(both),
        charts.latency([r | {"percentile": p} for p in ("p50", "p99") for r in both], "TTFT"),
        charts.floor([r | {"measure": m} for m in ("floor", "ITL p50") for r in both]),
        charts.ecdf(curve() + curve(level="c2")),
        charts.walls([r | {"wall": w} for w in ("MBU", "MFU") for r in rows()], crossing()),
        charts.ratio([{k: v for k, v in r.items() if k != "engine"} for r in rows()], "vllm", "llama"),
        charts.byte_account(bytes_),
        charts.usl(both, rows(values=(31.0, 58.0, 108.0, 181.0))),
    ]


def drawn_rows(spec):
    stack = [spec]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            for found in node.get("datasets", {}).values():
                yield from found
            if isinstance(node.get("data"), dict):
                yield from node["data"].get("values", [])
            stack += [value for key, value in node.items() if key != "datasets"]
        elif isinstance(node, list):
            stack += node


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_every_number_in_a_chart_names_its_figure(chart):
    numbers = [
        (name, row)
        for row in drawn_rows(chart.spec)
        for name, value in row.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    ]
    assert numbers
    assert all(f"{name}_id" in row for name, row in numbers)


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_every_chart_holds_against_the_schema(chart):
    assert vega.LayerChart.from_dict(chart.spec, validate=True)


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_no_chart_computes_a_number_in_the_browser(chart):
    assert '"transform"' not in json.dumps(chart.spec)
    assert "NaN" not in json.dumps(chart.spec)


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_every_chart_fits_its_container_and_says_itself_in_words(chart):
    assert chart.spec["width"] == "container"
    assert chart.spec["description"] == chart.alt
    assert chart.spec["usermeta"]["title"]


def test_the_same_rows_give_the_same_specification():
    assert [chart.spec for chart in every_chart()] == [chart.spec for chart in every_chart()]


def test_the_words_of_a_chart_hold_its_numbers_and_its_flags():
    flagged = rows()
    flagged[2]["flag"] = "short outputs"
    assert "110 tok/s at C = 4 (flagged)" in charts.throughput(flagged).alt


def test_a_chart_without_a_value_is_no_chart():
    empty = rows()
    for row in empty:
        row["value"] = None
    assert charts.throughput(empty) is None
    assert charts.ecdf([]) is None
    assert charts.byte_account([]) is None


def test_a_missing_level_is_left_out_of_the_line():
    gap = rows()
    gap[1]["value"] = None
    spec = charts.throughput(gap).spec
    assert {row["concurrency"] for row in drawn_rows(spec) if "value" in row} == {1, 4, 8}


def test_a_number_without_a_figure_is_refused():
    loose = rows()
    del loose[0]["value_id"]
    with pytest.raises(ValueError, match="names no figure"):
        charts.throughput(loose)


def test_what_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="nan"):
        charts.throughput(rows(values=(1.0, float("nan"), 2.0, 3.0)))


def test_flagged_points_are_hollow_and_say_why():
    flagged = rows()
    flagged[2]["flag"] = "short outputs"
    layers = charts.throughput(flagged).spec["layer"]
    hollow = [la for la in layers if la["mark"]["type"] == "point" and la["mark"].get("fill") == PAPER]
    assert len(hollow) == 1
    assert any(tip["field"] == "flag" for tip in hollow[0]["encoding"]["tooltip"])


def test_an_engine_keeps_its_colour_when_another_is_left_out():
    alone = charts.throughput(rows("llama", "2"))
    assert "--gr-e2" in json.dumps(alone.spec)
    assert "--gr-e1" not in json.dumps(alone.spec)


def test_series_that_are_no_engines_take_no_colour_of_one():
    walls = [r | {"wall": wall} for wall in ("MBU", "MFU") for r in rows()]
    lengths = [r | {"input": r["concurrency"], "input_id": r["concurrency_id"], "at": r["level"]} for r in walls]
    parts = [r | {"part": part} for part in ("engine", "precision", "together") for r in rows()]
    gauges = [r | {"series": name, "unit": "requests", "t": r["concurrency"], "t_id": "t.t", "after": "1 s"}
              for name in ("running", "waiting") for r in rows()]  # fmt: skip
    drawn = (charts.walls(walls), kv.length_walls(lengths), effects.split(parts, "a", "b"),
             cliff.over_time(gauges, "vllm", "long"))  # fmt: skip
    assert [chart.name for chart in drawn if "--gr-e" in json.dumps(chart.spec)] == []


def test_ticks_stand_at_the_measured_levels_of_a_log2_axis():
    x = charts.throughput(rows()).spec["layer"][0]["encoding"]["x"]
    assert x["axis"]["values"] == list(LEVELS)
    assert (x["scale"]["type"], x["scale"]["base"]) == ("log", 2)


def test_one_level_alone_still_has_an_axis_to_stand_on():
    low, high = charts.throughput(rows()[:1]).spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 1 < high


def test_a_crossing_leads_to_its_derivation():
    texts = [row for row in drawn_rows(charts.throughput(rows(), crossings=[crossing()]).spec) if "label" in row]
    assert {row["href"] for row in texts} == {"figures/pair.t.a.b.html#pair.t.a.b.cross1"}
    assert texts[0]["concurrency_id"] == "pair.t.a.b.cross1"


def test_labels_at_line_ends_stay_apart_and_keep_their_order():
    pixels = [100.0, 101.0, 103.0, 200.0]
    placed = [pixel + shift for pixel, shift in zip(pixels, apart(pixels), strict=True)]
    assert all(b - a >= LABEL_GAP - 1 for a, b in itertools.pairwise(placed))
    assert placed[3] == 200


def test_the_tail_of_the_itl_gets_a_tick_for_each_further_nine():
    axis = charts.ecdf(curve()).spec["layer"][0]["encoding"]["x"]["axis"]
    assert axis["values"] == sorted(axis["values"])
    assert all(name in axis["labelExpr"] for name in ("p50", "p90", "p99", "max"))


def test_zero_on_a_log_axis_does_not_break_the_chart():
    spec = charts.latency([r | {"percentile": "p50"} for r in rows(values=(0.0, 0.1, 0.2, 0.3))], "TTFT").spec
    low, _ = spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low > 0


def zero_at(place: int) -> list[dict]:
    """Rows that every chart over load can draw, one of which is 0."""
    found = rows(values=[0.0 if k == place else 0.1 * (k + 1) for k in range(4)])
    words = {"percentile": "p50", "measure": "ITL", "round": "a", "verdict": "", "line": "1", "part": "engine",
             "arrivals": 1.0, "arrivals_id": "x.rate", "rate": "1/s", "metric": "ITL", "median": 0.1, "median_id": "x.p50",
             "p50": "100 ms", "t": 1.0, "t_id": "x.t", "after": "1 s", "input": 64, "input_id": "x.input", "at": "64"}  # fmt: skip
    return [row | words for row in found]


ON_LOG_SCALES = {
    "latency": lambda found: charts.latency(found, "ITL"),
    "floor": charts.floor,
    "ratio": lambda found: charts.ratio(found, "vllm", "llama"),
    "wait in two rounds": against.wait,
    "over rounds": lambda found: history.over_rounds(found, ["a"], "itl.p50"),
    "percentiles": lambda found: charts.ecdf([row | {"share": "0.5"} for row in found]),
    "percentiles in two rounds": lambda found: against.distribution([row | {"share": "0.5"} for row in found]),
    "waits of an open loop": arrivals.waits,
    "open loop over time": lambda found: arrivals_time.over_time([found])[0],
    "parts of a ratio": lambda found: effects.split(found, "vllm", "llama"),
    "ratios": lambda found: cliff.ratios(found, "vllm", "long", "normal"),
    "intensity": kv.length_intensity,
}


@pytest.mark.parametrize("place", [0, 3], ids=["first", "last"])
@pytest.mark.parametrize("draw", ON_LOG_SCALES.values(), ids=ON_LOG_SCALES)
def test_a_zero_has_no_place_on_a_log_scale_and_is_left_to_the_table(draw, place):
    drawn = [row for row in drawn_rows(draw(zero_at(place)).spec) if "value" in row]
    assert len({row["value_id"] for row in drawn}) == 3
    assert all(row["value"] > 0 for row in drawn)


def test_a_range_that_reaches_zero_is_not_drawn_on_a_log_scale():
    ranged = [row | {"low": low, "low_id": "x", "high": 0.5, "high_id": "y", "percentile": "p50"}
              for row, low in zip(rows(values=(0.1, 0.2, 0.3, 0.4)), (0.0, 0.1, 0.2, 0.3), strict=True)]  # fmt: skip
    spec = charts.latency(ranged, "ITL").spec
    area = next(layer for layer in spec["layer"] if layer["mark"]["type"] == "area")
    assert [row["low"] for row in spec["datasets"][area["data"]["name"]]] == [0.1, 0.2, 0.3]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def theme_colours(theme: str) -> dict[str, str]:
    style = (ASSETS / "colours.css").read_text("utf-8")
    block = re.search(rf'\[data-md-color-scheme="{theme}"\] \{{(.*?)\}}', style, re.S)[1]
    return dict(re.findall(r"--gr-([a-z0-9-]+): (#[0-9a-f]{6});", block))


# linear RGB as eyes without one kind of cone see it (Machado, Oliveira and Fernandes 2009, severity 1)
EYES = {
    "all cones": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, eye: np.ndarray) -> np.ndarray:
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(eye @ linear, 0, 1) / (0.95047, 1, 1.08883)
    f, g, h = (np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * g - 16, 500 * (f - g), 200 * (g - h)])


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("theme", ["default", "slate"])
def test_any_two_engines_differ_in_colour_for_every_eye(theme, eye):
    colours = theme_colours(theme)
    seen = {f"e{place}": lab(colours[f"e{place}"], EYES[eye]) for place in range(1, 9)}
    apart = {(a, b): np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(seen, 2)}
    assert {pair: round(far, 1) for pair, far in apart.items() if far < 10} == {}


@pytest.mark.parametrize("theme", ["default", "slate"])
def test_every_colour_can_be_read_on_its_paper(theme):
    colours = theme_colours(theme)
    words = [name for name in colours if re.fullmatch(r"[egs]\d|ink|muted|link", name)]
    assert len(words) > 20
    # parts of a whole are areas between lines of paper, and no word is written in their colour
    wanted = {name: 3.0 if name.startswith("g") else 4.5 for name in words}
    assert {name for name in words if contrast(colours[name], colours["paper"]) < wanted[name]} == set()
    assert contrast(colours["ink"], colours["mark"]) > 7


def test_fallback_colours_are_those_of_the_light_theme():
    style = (ASSETS / "colours.css").read_text("utf-8")
    for letter, colours in (("e", ENGINE_COLOURS), ("g", GROUP_COLOURS), ("s", RAMP_COLOURS)):
        for place, colour in enumerate(colours, 1):
            assert re.search(rf"--gr-{letter}{place}: (#\w+);", style)[1] == colour
