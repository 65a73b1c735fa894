"""The second path to every figure: the manifest's formula text, evaluated over rows read here from the round's files.

Nothing of `figures` is used: files are parsed with `json`, `re` and `gzip`, columns come from the manifest's own column
formulas, and the fits and crossings below are other algorithms than those that made the values.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import json
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Mapping
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np
import yaml

from genreport.errors import AuditError


class Evidence:
    """The files of one round, each read once; `read` gives a file's bytes as stored."""

    def __init__(
        self, read: Callable[[str], bytes], columns: Mapping[str, str], tallies: Mapping[str, int] | None = None
    ) -> None:
        self.read, self.columns, self.tallies = read, columns, tallies or {}
        self.text = cache(self._text)
        self.lines = cache(lambda file: self.text(file).split("\n"))
        self.rows = cache(self._rows)
        self.selected = cache(self._selected)
        self.column = cache(self._column)
        self.tree = cache(self._tree)

    def _text(self, file: str) -> str:
        data = self.read(file)
        return (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8", "replace")

    def _rows(self, file: str) -> list[dict[str, Any]]:
        return [primitives(json.loads(line)) for line in self.lines(file) if line]

    def _selected(self, files: tuple[str, ...], where: str) -> list[dict[str, Any]]:
        return [row for file in files for row in self.rows(file) if evaluate(where, row)]

    def _column(self, files: tuple[str, ...], where: str, name: str) -> np.ndarray:
        text = self.columns.get(name, name)
        cells = [evaluate(text, row) for row in self.selected(files, where)]
        cells = [np.atleast_1d(cell) for cell in cells if cell is not None]
        return np.concatenate(cells) if cells else np.array([])

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
_NOTHING = {"due_us": 0, "t0_us": None, "end_us": 0, "gaps_us": [], "kinds": "", "tokens": None, "usage": None,
            "asked_input": 1, "asked_output": 1}  # fmt: skip


def _possible(record: dict[str, Any]) -> bool:
    usage, tokens = record["usage"] or {}, record["tokens"] or []
    stamps = [record["due_us"], record["t0_us"], record["end_us"], *record["gaps_us"]]
    counts = [record["asked_input"], record["asked_output"], *(usage.get(f"{of}_tokens") for of in _COUNTED)]
    return not (
        any(abs(stamp) > _LONGEST_US for stamp in stamps if stamp is not None)
        or any(count < 0 or count > _LONGEST_US for count in counts if count is not None)
        or any(count < 0 or count > _MOST_TOKENS for count in tokens)
        or sum(tokens) > _MOST_IN_ALL
    )


def primitives(record: dict[str, Any]) -> dict[str, Any]:
    """What a column formula may name, in seconds and tokens, from one line of `requests.jsonl`."""
    possible = _possible(record)
    record = record if possible else record | _NOTHING
    t0, gaps, kinds, usage = record["t0_us"], record["gaps_us"], record["kinds"], record["usage"] or {}
    stamps = [t0 + elapsed for elapsed in accumulate(gaps)] if t0 is not None else []
    text = [k for k, kind in enumerate(kinds) if kind in "tk"] if stamps else []
    tokens = None if record["tokens"] is None else [max(1, record["tokens"][k]) for k in text]
    counted = usage.get("completion_tokens")
    sound = possible and all(gap >= 0 for gap in gaps) and (not stamps or stamps[-1] <= record["end_us"])
    return {
        "index": record["index"],
        "seed": record["seed"],
        "answer": _fingerprint(record.get("text", "")),
        "sound": sound,
        "ok": record["failure"] is None and bool(text) and sound,
        "warmup": record["warmup"],
        "due_s": record["due_us"] / 1e6,
        "t0_s": None if t0 is None else t0 / 1e6,
        "end_s": record["end_us"] / 1e6,
        "text_s": np.array([stamps[k] for k in text]) / 1e6,
        "text_tokens": np.array([1] * len(text) if tokens is None else tokens, int),
        "choices_s": np.array([stamps[k] for k, kind in enumerate(kinds) if stamps and kind in "rtke"]) / 1e6,
        "event_gaps_us": np.array(gaps),
        "n": sum(tokens) if counted is None and tokens is not None else counted,
        "prompt_n": usage.get("prompt_tokens"),
        "cached_n": usage.get("cached_tokens"),
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
    inputs = {alias: _input(given, known) for alias, given in figure.get("inputs", {}).items()}
    try:
        located = [_located(source, evidence) for source in figure.get("sources", [])]
        return evaluate(figure["formula"], ChainMap(inputs, *located))
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, SyntaxError) as error:
        raise AuditError(f"{type(error).__name__}: {error}", where=f"{figure['id']}: {figure['formula']}") from None


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
            found = [_first_group(source["pattern"], line) for line in lines if re.search(source["pattern"], line)]
            return {"matches": np.array([number(x) for x in found])}
        case "pointer":
            return {"field": evidence.pointer(source["file"], source["pointer"])}
        case "samples":
            return _samples(source, evidence)
        case "tally":
            return {"tally": evidence.tallies[source["what"]]}
    raise AuditError(f"unknown kind of source {source['type']!r}")


def _first_group(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern!r} does not match {text[:80]!r}")
    return found.group(1) if found.re.groups else found.group(0)


def _samples(source: Mapping[str, Any], evidence: Evidence) -> dict[str, np.ndarray]:
    head, *rows = (json.loads(line) for line in evidence.lines(source["file"]) if line)
    first, last = source["lines"]
    kept = [(row[0], _sample(head, row, source["series"])) for row in rows[first - 2 : last - 1]]
    kept = [(t, value) for t, value in kept if value is not None]
    return {"t_s": np.array([t for t, _ in kept]) / 1e6, "sample": np.array([value for _, value in kept], float)}


def _sample(head: dict[str, Any], row: list, series: str) -> float | None:
    """One series of a sample; of `/slots` the tokens that all busy slots hold together."""
    if series == "resident_tokens" and "series" not in head:
        return sum(sum(slot[1:]) for slot in row[1])
    return row[head["series"].index(series) + 1]


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
        return float(np.sum((x - best * g) ** 2)), float(best)

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
    for _ in range(42):
        a, b = high - step * (high - low), low + step * (high - low)
        low, high = (low, b) if f(a) <= f(b) else (a, high)
    return float(min((grid[k], (low + high) / 2), key=f))


def crossings(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    """Every load where two log–log polylines meet, by bisection inside each interval where they change order."""
    c = np.log(np.asarray(c, float))
    gap = np.log(np.asarray(a, float)) - np.log(np.asarray(b, float))
    found = [float(np.exp(c[k])) for k in range(len(c)) if gap[k] == 0]
    for k in range(len(c) - 1):
        if gap[k] * gap[k + 1] < 0:
            found.append(
                float(np.exp(_bisect(lambda t, k=k: np.interp(t, c[k : k + 2], gap[k : k + 2]), c[k], c[k + 1])))
            )
    return sorted(found)


def crossings_linear_logx(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[float]:
    """As `crossings`, for curves linear in log C (shares such as MBU and MFU)."""
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
    x = np.sort(np.asarray(x, float))
    place = np.asarray(q, float) / 100 * (len(x) - 1)
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, len(x) - 1)
    return x[low] + (x[high] - x[low]) * (place - low)


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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "percentile": percentile, "mean": lambda x: float(np.sum(x) / len(x)), "sum": np.sum, "count": len, "min": np.min,
    "max": np.max, "median": lambda x: percentile(x, 50), "abs": np.abs, "sqrt": np.sqrt, "log": np.log, "exp": np.exp,
    "diff": np.diff, "repeat": np.repeat, "prod": np.prod, "where": np.where, "time_mean": time_mean, "rayleigh": rayleigh,
    "number": number, "usl": usl, "knee": knee, "crossings": crossings, "loglog_at": loglog_at,
    "crossings_linear_logx": crossings_linear_logx, "len": len, "float": float, "held": held,
    "histogram_percentile": histogram_percentile, "histogram_width": histogram_width, "agreement": agreement,
    "front_crossings": front_crossings,
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


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Value of a formula text; only arithmetic, comparisons, indexing and the functions above exist in it."""
    return _value(_parsed(text), names)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:  # noqa: C901 - one case a kind of node
    match node:
        case ast.Constant(value=value) if isinstance(value, (int, float)):
            return value
        case ast.Name(id="none" | "None"):
            return None
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left, op, right):
            return _BINARY[type(op)](_value(left, names), _value(right, names))
        case ast.UnaryOp(op, operand):
            return _UNARY[type(op)](_value(operand, names))
        case ast.BoolOp(op, parts):
            short = all if isinstance(op, ast.And) else any
            return short(bool(_value(part, names)) for part in parts)
        case ast.Compare(left, [op], [right]):
            return _COMPARE[type(op)](_value(left, names), _value(right, names))
        case ast.IfExp(test, body, orelse):
            return _value(body if _value(test, names) else orelse, names)
        case ast.Subscript(value, slice):
            return _value(value, names)[_index(slice, names)]
        case ast.List(parts) | ast.Tuple(parts):
            return np.array([_value(part, names) for part in parts], dtype=float)
        case ast.Call(ast.Name(id=function), arguments, []) if function in FUNCTIONS:
            return FUNCTIONS[function](*(_value(argument, names) for argument in arguments))
    raise SyntaxError(f"{ast.unparse(node)} is no part of the formula language")


def _index(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Slice):
        return slice(*(None if part is None else _value(part, names) for part in (node.lower, node.upper, node.step)))
    return _value(node, names)
