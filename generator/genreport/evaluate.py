"""The second path to every figure: the manifest's formula text, evaluated over rows read here from the round's files.

Nothing of `figures` is used: files are parsed with `json`, `re` and `gzip`, columns come from the manifest's own column
formulas, and the fits and crossings below are other algorithms than those that made the values.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import math
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import orjson
import yaml

from genreport.errors import AuditError


def _no_other(round: str, figure: str, seal: str) -> Any:
    raise AuditError("no other round is at hand", where=f"{round}: {figure}")


class Evidence:
    """The files of one round, each read once a level; `read` gives a file's bytes as stored."""

    def __init__(
        self,
        read: Callable[[str], bytes],
        columns: Mapping[str, str],
        tallies: Mapping[str, int] | None = None,
        foreign: Callable[[str, str, str], Any] | None = None,
    ) -> None:
        self.read, self.columns, self.tallies = read, columns, tallies or {}
        self.foreign = foreign or _no_other
        self.text = cache(self._text)
        self.lines = cache(lambda file: self.text(file).split("\n"))
        self.rows = cache(self._rows)
        self.selected = cache(self._selected)
        self.cells = cache(self._cells)
        self.column = cache(self._column)
        self.samples = cache(self._samples)
        self.series = cache(self._series)
        self.tree = cache(self._tree)
        self._held: set[str] = set()

    def turn_to(self, files: Iterable[str]) -> None:
        """Lets go of the levels before where these files are of others: the rows of all may not fit into the memory."""
        levels = {"/".join(file.split("/")[:4]) for file in files if file.startswith("levels/")}
        if levels and self._held.isdisjoint(levels):
            self._let_go()
        self._held |= levels

    def _let_go(self) -> None:
        for kept in (self.text, self.lines, self.rows, self.selected, self.cells, self.column, self.samples, self.series,
                     self.tree):  # fmt: skip
            kept.cache_clear()
        self._held.clear()

    def _data(self, file: str) -> bytes:
        data = self.read(file)
        return gzip.decompress(data) if file.endswith(".gz") else data

    def _text(self, file: str) -> str:
        return self._data(file).decode("utf-8", "replace")

    def _rows(self, file: str) -> list[dict[str, Any]]:
        return [primitives(_json(line)) for line in self._data(file).split(b"\n") if line]

    def _selected(self, file: str, where: str) -> list[dict[str, Any]]:
        return [row for row in self.rows(file) if evaluate(where, row)]

    def count(self, files: Iterable[str], where: str) -> int:
        """How many rows a selection keeps."""
        return sum(len(self.selected(file, where)) for file in files)

    def _cells(self, file: str, where: str, name: str) -> np.ndarray:
        text = self.columns.get(name, name)
        cells = [evaluate(text, row) for row in self.selected(file, where)]
        cells = [np.atleast_1d(cell) for cell in cells if cell is not None]
        return np.concatenate(cells) if cells else np.array([])

    def _column(self, files: tuple[str, ...], where: str, name: str) -> np.ndarray:
        cells = [self.cells(file, where, name) for file in files]
        cells = [found for found in cells if len(found)]
        return np.concatenate(cells) if cells else np.array([])

    def _samples(self, file: str) -> list[Any]:
        return [_json(line) for line in self._data(file).split(b"\n") if line]

    def _series(self, file: str, series: str) -> tuple[np.ndarray, np.ndarray]:
        head, *rows = self.samples(file)
        values = [_sample(head, row, series) for row in rows]
        return np.array([row[0] for row in rows], float) / 1e6, np.array(values, float)

    def _tree(self, file: str) -> Any:
        text = self.text(file)
        return yaml.safe_load(text) if file.endswith((".yaml", ".yml")) else json.loads(text)

    def pointer(self, file: str, pointer: str) -> Any:
        found = self.tree(file)
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found


# numbers that no request has, by docs/method.md: such a record is not sound, and nothing of it is read
_LONGEST_US, _MOST_TOKENS, _MOST_IN_ALL = 10**12, 100_000, 1_000_000
_COUNTED = ("prompt", "completion", "cached")


def _letters(letters: bytes) -> np.ndarray:
    """Whether a byte is one of these letters, by its number."""
    return np.isin(np.arange(256), np.frombuffer(letters, np.uint8))


# kinds of events that hold text, and those of all choices
_TEXT, _CHOICES = _letters(b"tk"), _letters(b"rtke")
_NOTHING = {"due_us": 0, "t0_us": None, "end_us": 0, "gaps_us": [], "kinds": "", "tokens": None, "usage": None,
            "retokenized": None, "asked_input": 1, "asked_output": 1}  # fmt: skip


def _possible(record: dict[str, Any]) -> bool:
    usage, gaps, tokens = record["usage"] or {}, record["gaps_us"] or [0], record["tokens"] or [0]
    stamps = [record["due_us"], record["t0_us"], record["end_us"], min(gaps), max(gaps)]
    stated = [usage.get(f"{of}_tokens") for of in _COUNTED]
    counts = [record["asked_input"], record["asked_output"], record.get("retokenized"), *stated]
    return not (
        any(abs(stamp) > _LONGEST_US for stamp in stamps if stamp is not None)
        or any(count < 0 or count > _LONGEST_US for count in counts if count is not None)
        or min(tokens) < 0
        or max(tokens) > _MOST_TOKENS
        or sum(tokens) > _MOST_IN_ALL
    )


def primitives(record: dict[str, Any]) -> dict[str, Any]:
    """What a column formula may name, in seconds and tokens, from one line of `requests.jsonl`."""
    possible = _possible(record)
    record = record if possible else record | _NOTHING
    t0, gaps, usage = record["t0_us"], np.array(record["gaps_us"], np.int64), record["usage"] or {}
    stamps = np.cumsum(gaps) + t0 if t0 is not None else np.array([], np.int64)
    kinds = np.frombuffer(record["kinds"].encode("ascii", "replace") if len(stamps) else b"", np.uint8)
    text, choices = _TEXT[kinds], _CHOICES[kinds]
    counted, given = usage.get("completion_tokens"), record["tokens"]
    tokens = None if given is None else np.maximum(1, np.array(given if len(stamps) else [], np.int64)[text])
    sound = possible and not (gaps < 0).any() and (not len(stamps) or stamps[-1] <= record["end_us"])
    return {
        "index": record["index"],
        "seed": record["seed"],
        "answer": _fingerprint(record.get("text", "")),
        "sound": bool(sound),
        "ok": record["failure"] is None and bool(text.any() and sound),
        "warmup": record["warmup"],
        "resent": record.get("retries", 0) > 0,
        "due_s": record["due_us"] / 1e6,
        "t0_s": None if t0 is None else t0 / 1e6,
        "end_s": record["end_us"] / 1e6,
        "text_s": stamps[text] / 1e6,
        "text_tokens": np.ones(text.sum(), np.int64) if tokens is None else tokens,
        "choices_s": stamps[choices] / 1e6,
        "event_gaps_us": gaps,
        "n": counted if counted is not None else int(tokens.sum()) if tokens is not None else record.get("retokenized"),
        "prompt_n": usage.get("prompt_tokens"),
        "cached_n": usage.get("cached_tokens"),
        "turn": record.get("turn"),
        "asked_input": record["asked_input"],
        "asked_output": record["asked_output"],
        **_server_words(record.get("server") or {}),
    }


def _fingerprint(text: str) -> int:
    """A number that stands for an answer: twelve hexadecimal digits of its SHA-256."""
    return int(hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12], 16)


def _server_words(server: dict[str, Any]) -> dict[str, float | None]:
    """The server's own token count, duration and parts of it of a request, where it stated them."""
    timings, metrics = (found if isinstance(found := server.get(key), dict) else {} for key in ("timings", "metrics"))
    parts = [timings.get("prompt_ms"), timings.get("predicted_ms")] if timings else [
        metrics.get("time_to_first_token_ms"), metrics.get("generation_time_ms")]  # fmt: skip
    known = all(_seconds(part) is not None for part in parts)
    return {
        "server_n": _stated(timings.get("predicted_n"), _LONGEST_US),
        "server_e2e_s": sum(parts) / 1e3 if known else None,
        "server_queue_s": _seconds(metrics.get("queue_time_ms")),
        "server_prefill_s": _seconds(parts[0]),
        "server_decode_s": _seconds(parts[1]),
    }


def _seconds(ms: Any) -> float | None:
    """Milliseconds as seconds, where they are no longer than a record may be."""
    ms = _stated(ms, _LONGEST_US / 1e3)
    return None if ms is None else ms / 1e3


def _stated(value: Any, most: float) -> float | None:
    """A number of a server's own words, none where it is no number or none that a request can have."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number and abs(value) < most else None


def recompute(figure: Mapping[str, Any], evidence: Evidence, known: Mapping[str, Any]) -> Any:
    """Value of one manifest figure from its sources and from the values of its inputs in the manifest."""
    evidence.turn_to(file for source in figure.get("sources", []) for file in _files(source))
    inputs = {alias: _input(given, known) for alias, given in figure.get("inputs", {}).items()}
    try:
        located = [_located(source, evidence) for source in figure.get("sources", [])]
        return evaluate(figure["formula"], ChainMap(inputs, *located))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, SyntaxError) as error:
        raise AuditError(f"{type(error).__name__}: {error}", where=f"{figure['id']}: {figure['formula']}") from None


def _files(source: Mapping[str, Any]) -> Sequence[str]:
    return source["files"] if "files" in source else [source["file"]] if "file" in source else ()


def _input(given: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(given, str):
        value = known[given]["value"]
        return np.array(value) if isinstance(value, (list, tuple)) else value
    return np.concatenate([np.atleast_1d(np.asarray(known[i]["value"], dtype=float)) for i in given])


def _located(source: Mapping[str, Any], evidence: Evidence) -> Mapping[str, Any]:
    match source["type"]:
        case "rows":
            return _Columns(evidence, tuple(source["files"]), source["where"])
        case "line":
            text = evidence.lines(source["file"])[source["line"] - 1]
            return {"line": _first_group(source["pattern"], text), "text": text}
        case "lines":
            lines = evidence.lines(source["file"])[source["first"] - 1 : source["last"]]
            search = re.compile(source["pattern"]).search
            found = [match for line in lines if (match := search(line))]
            return {
                name: np.array([number(match[group]) for match in found]) for name, group in _groups(source["pattern"])
            }
        case "pointer":
            return {"field": evidence.pointer(source["file"], source["pointer"])}
        case "samples":
            return _samples(source, evidence)
        case "tally":
            return {"tally": evidence.tallies[source["what"]]}
        case "given":
            return {"given": _first_group(source["pattern"], source["text"])}
        case "foreign":
            return {"foreign": evidence.foreign(source["round"], source["figure"], source["seal"])}
    raise AuditError(f"unknown kind of source {source['type']!r}")


def _groups(pattern: str) -> list[tuple[str, int]]:
    """Names of what a line's match gives, and its groups: the first one, and those that the pattern names."""
    found = re.compile(pattern)
    return [("matches", min(found.groups, 1)), *found.groupindex.items()]


def _first_group(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern!r} does not match {text[:80]!r}")
    return found.group(1) if found.re.groups else found.group(0)


def _samples(source: Mapping[str, Any], evidence: Evidence) -> dict[str, np.ndarray]:
    first, last = source["lines"]
    t_s, values = (column[first - 2 : last - 1] for column in evidence.series(source["file"], source["series"]))
    known = ~np.isnan(values)
    return {"t_s": t_s[known], "sample": values[known]}


def _sample(head: dict[str, Any], row: list, series: str) -> float | None:
    """One series of a sample, if it has it; of `/slots` the tokens that all busy slots hold together."""
    if series == "resident_tokens" and "series" not in head:
        return sum(sum(slot[1:]) for slot in row[1])
    place = head["series"].index(series) + 1
    return row[place] if place < len(row) else None


def _json(line: bytes) -> Any:
    """A line's value; orjson is three times as fast, and leaves numbers beyond 64 bits and bad UTF-8 to `json`."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return json.loads(line.decode("utf-8", "replace"))


class _Columns(dict):
    """Columns of a selection of rows, computed when the formula first names them."""

    def __init__(self, evidence: Evidence, files: tuple[str, ...], where: str) -> None:
        super().__init__()
        self._select = lambda name: evidence.column(files, where, name)

    def __missing__(self, name: str) -> np.ndarray:
        return self._select(name)


# ---------------------------------------------------------------- the formula language


def time_mean(t: np.ndarray, x: np.ndarray) -> float:
    """Mean of a sampled series by trapezoid over its own time axis."""
    return float(np.sum((x[1:] + x[:-1]) / 2 * np.diff(t)) / (t[-1] - t[0])) if len(t) > 1 else float(x[0])


def rayleigh(t: np.ndarray, period: float) -> float:
    """Rayleigh length of phases: 1 = all in step, 0 = evenly spread."""
    phase = 2 * np.pi * np.asarray(t) / period
    return float(np.hypot(np.cos(phase).mean(), np.sin(phase).mean()))


def held(t: np.ndarray, start: np.ndarray, end: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """What is held at each time: amounts step in at the first time that is not before their start, out likewise."""
    order = np.argsort(t, kind="stable")
    steps = np.zeros(len(t) + 1)
    np.add.at(steps, np.searchsorted(t[order], start), amount)
    np.subtract.at(steps, np.searchsorted(t[order], end), amount)
    found = np.empty(len(t))
    found[order] = np.cumsum(steps)[:-1]
    return found


def usl(c: np.ndarray, x: np.ndarray) -> tuple[float, float, float]:
    """λ, σ, κ of the Universal Scalability Law: a search in κ and, inside, in σ, both between 0 and 1; λ is linear then."""
    c, x = np.asarray(c, float), np.asarray(x, float)

    def lam(sigma: float, kappa: float) -> tuple[float, float]:
        g = c / (1 + sigma * (c - 1) + kappa * c * (c - 1))
        best = g @ x / (g @ g)
        off = x - best * g
        return float(off @ off), float(best)

    def sigma_of(kappa: float) -> float:
        return _lowest(lambda root: lam(root**3, kappa)[0]) ** 3

    # cube roots, since what matters lies near 0
    kappa = _lowest(lambda root: lam(sigma_of(root**3), root**3)[0]) ** 3
    sigma = sigma_of(kappa)
    return lam(sigma, kappa)[1], sigma, kappa


def _lowest(f: Callable[[float], float]) -> float:
    """Where a function is lowest between 0 and 1: a grid, then golden sections beside the grid's lowest point."""
    grid = np.linspace(0, 1, 25)
    k = int(np.argmin([f(t) for t in grid]))
    low, high, step = grid[max(k - 1, 0)], grid[min(k + 1, 24)], (5**0.5 - 1) / 2
    a, b = high - step * (high - low), low + step * (high - low)
    fa, fb = f(a), f(b)
    for _ in range(42):
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - step * (high - low)
            fa = f(a)
        else:
            low, a, fa = a, b, fb
            b = low + step * (high - low)
            fb = f(b)
    return float(min((grid[k], (low + high) / 2), key=f))


def crossings(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Every load where two log–log polylines meet: where those of their logarithms do, linear in log C."""
    return crossings_linear_logx(c, np.log(a), np.log(b))


def crossings_linear_logx(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Every load where curves linear in log C meet (shares such as MBU and MFU), by bisection where they change order."""
    x, gap = np.log(np.asarray(c, float)), np.asarray(a, float) - np.asarray(b, float)
    found = [float(np.exp(x[k])) for k in range(len(x)) if gap[k] == 0]
    for k in range(len(x) - 1):
        if gap[k] * gap[k + 1] < 0:
            found.append(
                float(np.exp(_bisect(lambda t, k=k: np.interp(t, x[k : k + 2], gap[k : k + 2]), x[k], x[k + 1])))
            )
    return sorted(found)


def _bisect(f: Callable[[float], float], low: float, high: float) -> float:
    rising = f(low) < 0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if (f(middle) < 0) == rising else (low, middle)
    return (low + high) / 2


def loglog_at(at: float, xs: np.ndarray, ys: np.ndarray) -> float:
    """Log–log linear value of a polyline at `at`."""
    return float(np.exp(np.interp(np.log(at), np.log(np.asarray(xs, float)), np.log(np.asarray(ys, float)))))


def knee(c: np.ndarray, x: np.ndarray) -> float:
    """Lower end of the first interval whose throughput elasticity is below one half."""
    for k in range(len(c) - 1):
        if np.log(x[k + 1] / x[k]) < 0.5 * np.log(c[k + 1] / c[k]):
            return float(c[k])
    raise ValueError("no interval below one half")


def front_crossings(ta: np.ndarray, xa: np.ndarray, tb: np.ndarray, xb: np.ndarray) -> list[float]:
    """Every wait at which the fronts of two sweeps meet, straight on log–log axes between the levels that none beats."""
    a, b = _unbeaten(ta, xa), _unbeaten(tb, xb)
    low, high = max(a[0][0], b[0][0]), min(a[-1][0], b[-1][0])
    waits = sorted({t for t, _ in (*a, *b) if low <= t <= high})
    sides = (np.log(np.transpose(side)) for side in (a, b))
    return crossings_linear_logx(waits, *(np.interp(np.log(waits), t, x) for t, x in sides)) if waits else []


def _unbeaten(t: np.ndarray, x: np.ndarray) -> list[tuple[float, float]]:
    points = {(float(wait), float(rate)) for wait, rate in zip(t, x, strict=True)}
    return sorted(p for p in points if not any(q != p and q[0] <= p[0] and q[1] >= p[1] for q in points))


def agreement(prompt: np.ndarray, answer: np.ndarray) -> float:
    """Of the prompts that were answered exactly twice, the share whose two answers are the same."""
    order = np.argsort(prompt, kind="stable")
    _, first, times = np.unique(np.asarray(prompt)[order], return_index=True, return_counts=True)
    answer, twice = np.asarray(answer)[order], first[times == 2]
    return float(np.mean(answer[twice] == answer[twice + 1]))


def number(text: str) -> float:
    """A figure as logs write it, thousands separators included."""
    return float(str(text).replace(",", "").strip())


def percentile(x: np.ndarray, q: Any) -> Any:
    """Linear-interpolated order statistic(s), by sorting here rather than by numpy.percentile."""
    x = _ordered(x)
    place = np.asarray(q, float) / 100 * (len(x) - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, len(x) - 1)
    return x[low] + (x[high] - x[low]) * (place - low)


class _Last:
    """The values that were sorted last: a level's percentiles are asked for one after the other."""

    given: Any = None
    ordered: np.ndarray


def _ordered(x: Any) -> np.ndarray:
    if x is not _Last.given:
        _Last.given, _Last.ordered = x, np.sort(np.asarray(x, float))
    return _Last.ordered


def _bucket(bounds: np.ndarray, buckets: np.ndarray, q: float) -> tuple[float, float, float]:
    """Ends of the bucket in which percentile q of a cumulative histogram lies, and how far into it; from 0 upwards."""
    rank, low, below = q / 100 * buckets[-1], 0.0, 0.0
    for high, upto in zip(bounds, buckets, strict=False):
        if upto >= rank:
            return low, float(high), float((rank - below) / (upto - below))
        low, below = float(high), upto
    raise ValueError("the percentile lies beyond the last bound")


def histogram_percentile(bounds: np.ndarray, buckets: np.ndarray, q: float) -> float:
    """Percentile of a cumulative histogram, straight inside the bucket."""
    low, high, share = _bucket(bounds, buckets, q)
    return low + share * (high - low)


def histogram_width(bounds: np.ndarray, buckets: np.ndarray, q: float) -> float:
    """Width of the bucket in which that percentile lies: the largest error it can have."""
    low, high, _ = _bucket(bounds, buckets, q)
    return high - low


def variance(x: np.ndarray) -> float:
    """Sample variance, by the differences of all pairs."""
    x = np.asarray(x, float)
    return float(np.sum((x[:, None] - x[None, :]) ** 2) / (2 * len(x) * (len(x) - 1)))


def t_tail(t: float, freedom: float) -> float:
    """Probability that Student's t exceeds t, by the incomplete beta function."""
    if t < 0:
        return 1 - t_tail(-t, freedom)
    return _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5) / 2


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction on the side where that converges fast."""
    if x in (0.0, 1.0):
        return x
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(front) / a / _continued(x, a, b)


def _continued(x: float, a: float, b: float) -> float:
    """What the beta function's power is divided by: 1 + d1 / (1 + d2 / (1 + …)), in twice as many terms until it stands."""
    found, before = 0.0, None
    terms = 16
    while found != before and terms < 20_000:
        before, found = found, 1.0
        for k in range(terms, 0, -1):
            found = 1 + _term(k, x, a, b) / found
        terms *= 2
    return found


def _term(k: int, x: float, a: float, b: float) -> float:
    m = k // 2
    if k % 2:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


@cache
def t_quantile(p: float, freedom: float) -> float:
    """Quantile of Student's t, by bisection of its tail."""
    if p > 0.5:
        return -t_quantile(1 - p, freedom)
    low, high = 0.0, 1.0
    while t_tail(high, freedom) > p:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high and high - low > 1e-15 * high:
        low, high = (middle, high) if t_tail(middle, freedom) > p else (low, middle)
    return -(low + high) / 2


def ratio_interval(over: np.ndarray, under: np.ndarray) -> tuple[float, float]:
    """Ends of the 95 % interval of a ratio of geometric means by Welch; both are the ratio where no repeat differs."""
    sides = [np.log(np.asarray(side, float)) for side in (over, under)]
    middle = sum(sides[0]) / len(sides[0]) - sum(sides[1]) / len(sides[1])
    a, b = (variance(side) / len(side) for side in sides)
    if a + b < 1e-18:
        return math.exp(middle), math.exp(middle)
    freedom = (a + b) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip((a, b), sides, strict=True))
    half = t_quantile(0.975, freedom) * math.sqrt(a + b)
    return math.exp(middle - half), math.exp(middle + half)


def adjusted(p: Any, family: np.ndarray) -> Any:
    """p after Benjamini–Hochberg over a family: the least m · p' / rank among the family's p' that are not below it."""
    family = np.sort(np.asarray(family, float))
    scaled = family * len(family) / np.searchsorted(family, family, side="right")
    found = [min(1.0, scaled[np.searchsorted(family, each, side="left") :].min()) for each in np.atleast_1d(p)]
    return np.array(found) if np.ndim(p) else found[0]


def bootstrap_error(values: np.ndarray, repeats: np.ndarray, q: float, resamples: int, seed: int) -> float:
    """Spread of a two-level bootstrap of the mean log percentile: every resample is built and sorted."""
    draw, ends = np.random.default_rng(seed), np.cumsum(np.atleast_1d(repeats)).astype(int)
    parts = [np.sort(values[end - int(count) : end]) for end, count in zip(ends, np.atleast_1d(repeats), strict=True)]
    found = []
    for _ in range(resamples):
        drawn = [parts[k] for k in draw.integers(0, len(parts), len(parts))]
        found.append(sum(math.log(percentile(part[draw.integers(0, len(part), len(part))], q)) for part in drawn))
    return math.sqrt(variance(np.array(found) / len(parts)))


def since(t: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Times of repeats that stand end to end, so many of each, from the start of their own repeat."""
    ends = np.cumsum(counts).astype(int)
    parts = [t[end - int(n) : end] - start for start, n, end in zip(starts, counts, ends, strict=True)]
    return np.concatenate(parts)


def _stretches(t: np.ndarray, span: float, bins: int) -> dict[int, list[int]]:
    """Of equal stretches of a span that hold times, the places of these; the span's end is in the last one."""
    found: dict[int, list[int]] = {}
    for place, at in enumerate(t):
        found.setdefault(min(math.floor(at * bins / span), bins - 1), []).append(place)
    return dict(sorted(found.items()))


def bin_middle(t: np.ndarray, span: float, bins: int) -> np.ndarray:
    """Middle of each stretch that holds times."""
    return np.array([(k + 0.5) * span / bins for k in _stretches(t, span, bins)])


def bin_count(t: np.ndarray, span: float, bins: int) -> np.ndarray:
    """How many times each of these stretches holds."""
    return np.array([float(len(places)) for places in _stretches(t, span, bins).values()])


def bin_percentile(t: np.ndarray, x: np.ndarray, span: float, bins: int, q: float) -> np.ndarray:
    """Percentile of what belongs to the times of each of these stretches."""
    return np.array([percentile(x[places], q) for places in _stretches(t, span, bins).values()])


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "percentile": percentile, "mean": lambda x: float(np.sum(x) / len(x)), "sum": np.sum, "count": len, "min": np.min,
    "max": np.max, "median": lambda x: percentile(x, 50), "abs": np.abs, "sqrt": np.sqrt, "log": np.log, "exp": np.exp,
    "diff": np.diff, "repeat": np.repeat, "prod": np.prod, "where": np.where, "time_mean": time_mean, "rayleigh": rayleigh,
    "number": number, "usl": usl, "knee": knee, "crossings": crossings, "loglog_at": loglog_at,
    "crossings_linear_logx": crossings_linear_logx, "float": float, "held": held,
    "histogram_percentile": histogram_percentile, "histogram_width": histogram_width, "agreement": agreement,
    "front_crossings": front_crossings, "variance": variance, "t_tail": t_tail, "t_quantile": t_quantile,
    "adjusted": adjusted, "bootstrap_error": bootstrap_error, "since": since, "bin_middle": bin_middle,
    "bin_count": bin_count, "bin_percentile": bin_percentile, "ratio_interval": ratio_interval,
}  # fmt: skip

_BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.Mod: operator.mod, ast.FloorDiv: operator.floordiv,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip
_COMPARE = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}


Formula = Callable[[Mapping[str, Any]], Any]


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Value of a formula text; only arithmetic, comparisons, indexing and the functions above exist in it."""
    return _compiled(text)(names)


@cache
def _compiled(text: str) -> Formula:
    """A formula as a function of its names: a column's is asked row by row, so its text is taken apart but once."""
    return _formula(ast.parse(text, mode="eval").body)


def _formula(node: ast.expr) -> Formula:  # noqa: C901 - one case a kind of node
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return lambda names: value
        case ast.Name(id="none" | "None"):
            return lambda names: None
        case ast.Name(id=name):
            return operator.itemgetter(name)
        case ast.BinOp(left, op, right):
            return _both(_BINARY[type(op)], left, right)
        case ast.UnaryOp(op, operand):
            return _applied(_UNARY[type(op)], [operand])
        case ast.BoolOp(op, parts):
            short, inner = all if isinstance(op, ast.And) else any, [_formula(part) for part in parts]
            return lambda names: short(bool(part(names)) for part in inner)
        case ast.Compare(left, [op], [right]):
            return _both(_COMPARE[type(op)], left, right)
        case ast.IfExp(test, body, orelse):
            holds, then, other = _formula(test), _formula(body), _formula(orelse)
            return lambda names: then(names) if holds(names) else other(names)
        case ast.Subscript(value, ast.Slice(lower, upper, step)):
            whole, ends = _formula(value), [part and _formula(part) for part in (lower, upper, step)]
            return lambda names: whole(names)[slice(*(end and end(names) for end in ends))]
        case ast.Subscript(value, index):
            return _both(operator.getitem, value, index)
        case ast.List(parts) | ast.Tuple(parts):
            listed = [_formula(part) for part in parts]
            return lambda names: np.array([part(names) for part in listed], dtype=float)
        case ast.Call(ast.Name(id=function), arguments, []) if function in FUNCTIONS:
            return _applied(FUNCTIONS[function], arguments)
    raise SyntaxError(f"{ast.unparse(node)} is no part of the formula language")


def _both(apply: Callable[[Any, Any], Any], left: ast.expr, right: ast.expr) -> Formula:
    one, other = _formula(left), _formula(right)
    return lambda names: apply(one(names), other(names))


def _applied(apply: Callable[..., Any], parts: Sequence[ast.expr]) -> Formula:
    inner = [_formula(part) for part in parts]
    return lambda names: apply(*[part(names) for part in inner])
