"""How a value is written: rounded once, here, three significant digits unless it is a count."""

from __future__ import annotations

from math import floor, log10

from genreport.words import say

NARROW = "\u202f"  # between a number and its unit, so that they never part at a line end

_SECONDS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_BYTE_RATES = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1, "B/s"))
_FLOPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1, ""))
_SCALES = {
    "s": _SECONDS,
    "s/s": tuple((size, f"{name}/s") for size, name in _SECONDS),
    "bytes": _BYTES,
    "bytes/s": _BYTE_RATES,
    "FLOP/s": tuple((size, f"{prefix}FLOP/s") for size, prefix in _FLOPS),
    "FLOP": tuple((size, f"{prefix}FLOP") for size, prefix in _FLOPS),
}
_SUFFIX = {"share": "%", "ratio": "×", "count": "", "1": ""}
NOISE = 1e-9  # below it stands the rounding of arithmetic, not a measurement
STAMPED = (
    1e-6  # of a rate: so far stamps of whole microseconds take a schedule from the whole number it was planned with
)
_WORDS = {"tokens"}  # units that are no symbols


def shown(value: float, unit: str) -> str:
    """The text of a value on a page, e.g. `14.1 ms`, `2.71×`, `89.0 %`, `1,388 tok/s`."""
    if unit == "share":
        return f"{digits(value * 100)}{NARROW}%"
    if unit == "ratio":
        return f"{digits(value)}×"
    if unit in _SCALES:
        size, name = _scale(abs(value), _SCALES[unit])
        return f"{digits(value / size)}{NARROW}{name}"
    if unit == "req/s" and abs(value - round(value)) <= STAMPED * abs(value):
        value = round(value)
    name = _SUFFIX.get(unit, named(unit))
    return f"{digits(value)}{NARROW}{name}" if name else digits(value)


def named(unit: str) -> str:
    """A unit as a reader sees it."""
    return say(f"unit.{unit}") if unit in _WORDS else unit


def _scale(value: float, scales: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The largest scale the value fills after rounding; 0 takes the first."""
    if value == 0:
        return scales[0]
    return next((scale for scale in scales if value >= scale[0] * 0.9995), scales[-1])


def digits(value: float, significant: int = 3) -> str:
    """Three significant digits, thousands separated; whole numbers are never rounded."""
    if abs(value) < NOISE:
        return "0"
    if float(value).is_integer():
        return f"{int(value):,}".replace("-", "−")
    magnitude = floor(log10(abs(float(f"{value:.{significant}g}"))))  # of the rounded value: 0.9996 is 1.00
    return f"{value:,.{max(0, significant - 1 - magnitude)}f}".replace("-", "−")
