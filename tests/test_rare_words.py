"""Sentences that few rounds bring about, each on a composed round that does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import audited
from compose import VLLM, arriving, compose_round, sweep
from genreport.display import shown
from genreport.figures import compute
from genreport.pages import Printer, _environment, shared_context
from genreport.records import ClientCeiling, Failure, Gpu
from test_against import CLAIM, noisy, page, pair
from test_power import LEVEL, figures_of, gpu  # noqa: F401 (figures_of is a fixture, used by name alone)

CLAIMS = {
    "falls": ({"falls_by_more_than": 0.1}, "held. The claim is a fall of more than 10 %. Over 2 levels, each a block"),
    "stays": ({"stays_within": 0.1}, "refuted. The claim is a change of at most 10 % either way."),
    "changes": ({"changes_by_more_than": 0.1}, "held. The claim is a change of more than 10 % either way."),
    "nowhere": (
        {"rises_by_more_than": 0.1, "test": "elsewhere"},
        "not judged. The two sides have no level of its test and engine in common.",
    ),
    "vague": ({"rises_by_more_than": "much"}, "not judged. Its claim is none that can be judged."),
}
FEW = "undecided. A verdict takes three repeats of each level on both sides."


def entry(id: str, claim: dict) -> dict:
    return {name: value for name, value in CLAIM.items() if name != "rises_by_more_than"} | {"id": id} | claim


def test_a_hypothesis_is_told_with_its_claim_or_why_it_was_not_judged(tmp_path: Path) -> None:
    entries = [entry(id, claim) for id, (claim, _) in CLAIMS.items()]
    text = page(pair(tmp_path, new={"hypotheses": entries, "latency": noisy(vllm=1.6, shift=2)}))
    assert [id for id, (_, said) in CLAIMS.items() if f"{id}: it is faster – {said}" not in text] == []


def test_a_hypothesis_over_two_repeats_says_how_many_a_verdict_takes(tmp_path: Path) -> None:
    text = page(pair(tmp_path, new={"hypotheses": [entry("few", {"rises_by_more_than": 0.1})], "repeats": 2}))
    assert f"few: it is faster – {FEW}" in text


def test_a_choice_that_changes_stands_before_what_became_faster_in_some_figures_and_slower_in_others(tmp_path) -> None:
    slos = [{"id": "snappy", "figure": "ttft", "percentile": "p50", "below_ms": 75}]
    later = {"slos": slos, "latency": noisy(vllm=0.7, wait=1.6, shift=2)}
    text = page(pair(tmp_path, old={"slos": slos}, new=later))
    assert "The recommendation changes: with a p50 TTFT under 75 ms it was vllm-bf16 and is now no engine." in text
    assert "Slower: llamacpp-q4. Faster in some figures, slower in others: vllm-bf16. Most improved" in text


def test_arrivals_of_a_trace_are_said_to_be_those_of_a_file(tmp_path: Path) -> None:
    text = audited.read(audited.composed(tmp_path, arriving(2, 4, process="trace")), "arrivals/index.md")
    assert (
        "They come by a schedule made beforehand, that of a trace file, whether or not earlier ones are done." in text
    )


def test_a_fit_that_peaks_before_the_first_load_says_that_all_lies_past_it(tmp_path: Path) -> None:
    falling = {"latency": lambda _, c, __: (0.005 * c * c, 0.005 * c * c)}
    text = audited.read(audited.composed(tmp_path, sweep(1, 2, 4, 8, 16), **falling), "concurrency/index.md")
    assert re.search(
        r"peaks before the first measured load \(C = 0\.0\d+\): all that was measured lies past it\.", text
    )


def test_each_level_has_its_share_of_what_the_client_can_and_one_without_tokens_a_blank(tmp_path: Path) -> None:
    def dead(engine: str, level: str, *_: object) -> Failure | None:
        return Failure(kind="http", status=503) if level == "c4" else None

    client = ClientCeiling(streams=1, events=1000, failed=0, wall_us=1_000_000, cpu_us=1, method="composed")
    figures = compute(
        compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1, 4),), failures=dead, machine={"client": client})
    )
    markup = next(text for text in tables(figures) if "of what the client can" in text)
    heads = re.findall(r"<th>(.*?)</th>", markup)
    rows = [re.findall(r"<td>(.*?)</td>", row, re.S) for row in re.findall(r"<tr>(<td>.*?)</tr>", markup, re.S)]
    assert [len(row) for row in rows] == [len(heads)] * 2
    one, four = (row[heads.index("of what the client can")] for row in rows)
    assert 'data-id="concurrency.vllm-bf16.c1.client_load"' in one
    share = figures.ledger["concurrency.vllm-bf16.c1.client_load"]
    assert re.sub("<.*?>", "", one) == shown(share.value, "share")
    assert four == ""


def tables(figures) -> list[str]:
    text = audited.page(figures.round, "concurrency/index.md")
    return re.findall(r"<table.*?</table>", text, re.S)


ALL_BITS = (
    "its power limit 100 %, a slowdown by hardware 100 %, its temperature, by the driver 100 %, its temperature 100 %, "
    "a brake from the power supply 100 %."
)
ALL_WORDS = (
    "a signal from outside that something is hot 100 %, its power limit 100 %, its temperature 100 %, "
    "the temperature of its voltage regulators 100 %, the temperature of its memory 100 %, a reason that is not named 100 %."
)


@pytest.mark.parametrize(("reasons", "said"), [
    ("0x00000000000000EC", ALL_BITS), ("ppt+socket_thermal+prochot+vr_thermal+hbm_thermal+throttled", ALL_WORDS),
])  # fmt: skip
def test_each_reason_why_a_gpu_slowed_down_has_its_words(request, reasons: str, said: str) -> None:
    figures = request.getfixturevalue("figures_of")(gpu(reasons=reasons))
    context = shared_context(figures) | {"up": "../", "waits": [{"engine": "vllm-bf16", "levels": [LEVEL]}]}
    found = _environment(Printer(figures.ledger, "../")).get_template("_throttling.html").render(context)
    text = " ".join(re.sub(r"<[^>]+>", "", found).replace("\u202f", " ").split())
    assert text.endswith(f"C = 4: {said}")


def test_another_driver_of_a_gpu_is_a_difference_of_the_system(tmp_path: Path) -> None:
    def machine(driver: str) -> dict:
        return {"machine": {"gpus": [Gpu(name="GPU", memory_bytes=2**34, driver=driver)]}}

    found = pair(tmp_path, old=machine("570.86.10"), new=machine("580.95.05"))
    changed = [(d.topic, d.name, d.old, d.new) for d in found.environment if not d.same and "driver" in d.name]
    assert changed == [("system", "gpu 0 driver", "570.86.10", "580.95.05")]
    assert "gpu 0 driverthe round570.86.10580.95.05" in page(found)
