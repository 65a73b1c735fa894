"""Which figures of a level two rounds are compared by, and which of them are corrected together."""

from __future__ import annotations

from genreport.errors import OptionError

# figure -> whether more of it is better
COMPARED: dict[str, str] = {
    "output_throughput": "higher",
    "request_throughput": "higher",
    "goodput": "higher",
    "due_goodput": "higher",
    "ttft.p50": "lower",
    "ttft.p99": "lower",
    "due_ttft.p50": "lower",
    "due_ttft.p99": "lower",
    "tpot.p50": "lower",
    "itl.p50": "lower",
    "itl.p99": "lower",
    "e2el.p50": "lower",
    "e2el.p99": "lower",
    "due_e2el.p50": "lower",
    "due_e2el.p99": "lower",
}
# an open loop is judged from when a request was due: from sending, what waits at the client would not count
FROM_SENDING = tuple(figure for figure in COMPARED if f"due_{figure}" in COMPARED)
LATENCIES = tuple(figure for figure in COMPARED if "." in figure)
# a family holds the figures whose verdicts are corrected together; what is outside it gets none
FAMILIES: dict[str, tuple[str, ...]] = {
    "all": tuple(COMPARED),
    "main": ("output_throughput", "ttft.p50", "ttft.p99", "due_ttft.p50", "due_ttft.p99", "itl.p50", "itl.p99"),
    "throughput": ("output_throughput",),
    "latency": LATENCIES,
}
# counted, not estimated: compared as they are
EXACT = ("completed", "failed", "output_tokens", "prompt_tokens", "short_outputs", "preemptions")
EXACT_OF_ENGINE = ("weights_bytes", "file_bytes", "kv_bytes_per_token", "pool_tokens")


def figures_of(family: str) -> tuple[str, ...]:
    """The figures of a family by its name, or those that a list with commas names; OptionError for what is neither."""
    names = FAMILIES.get(family) or tuple(dict.fromkeys(name.strip() for name in family.split(",")))
    unknown = next((name for name in names if name not in COMPARED), None)
    if unknown is not None:
        cure = f"choose one of {', '.join(FAMILIES)}, or figures: {', '.join(COMPARED)}"
        raise OptionError(f"no family or figure {unknown!r}", where="--family", cure=cure)
    return names
