"""AMD's GPUs, by the JSON of amd-smi or of the older rocm-smi."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from genreport.devices.looks import MIB, UNKNOWN, Row, looks, printed
from genreport.records import Gpu

# both tools are programs of their own for each look, and not cheap
PERIOD_S = 2.0
AMD_LOOK, AMD_LISTED = ("amd-smi", "metric", "--json"), ("amd-smi", "static", "--json")
ROCM_LOOK = ("rocm-smi", "--showpower", "--showtemp", "--showclocks", "--showuse", "--showmemuse", "--showmeminfo", "vram",
             "--json")  # fmt: skip
ROCM_LISTED = ("rocm-smi", "--showproductname", "--showdriverversion", "--showmeminfo", "vram", "--json")
REASONS = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")


async def amd_smi(period_s: float) -> AsyncIterator[str]:
    async for line in looks(max(period_s, PERIOD_S), lambda: _told(AMD_LOOK, rows_of_amd_smi)):
        yield line


async def rocm_smi(period_s: float) -> AsyncIterator[str]:
    async for line in looks(max(period_s, PERIOD_S), lambda: _told(ROCM_LOOK, rows_of_rocm_smi)):
        yield line


async def _told(command: Sequence[str], read: Callable[[str], list[Row]]) -> list[Row]:
    return read("".join([line async for line in printed(command)]))


def rows_of_amd_smi(text: str) -> list[Row]:
    """A row each GPU of `amd-smi metric --json`: a list, or an object that holds one; what is missing is unknown."""
    return [_row_of_amd_smi(gpu) for gpu in _listed(text) if _index(gpu) is not None]


def _row_of_amd_smi(gpu: dict[str, Any]) -> Row:
    power, use, heat, memory = (_part(gpu, name) for name in ("power", "usage", "temperature", "mem_usage"))
    return [
        str(_index(gpu)),
        _first(power, "socket_power", "average_socket_power", "current_socket_power"),
        _clock(gpu, "gfx"),
        _clock(gpu, "mem"),
        _first(heat, "edge", "hotspot"),
        _first(use, "gfx_activity"),
        _first(use, "umc_activity"),
        _first(memory, "used_vram"),
        _reasons(gpu),
    ]


def _listed(text: str) -> list[dict[str, Any]]:
    """The GPUs of `amd-smi ... --json`: a list of them, or an object that holds one."""
    found = _json(text)
    found = found.get("gpu_data") if isinstance(found, dict) else found
    return [gpu for gpu in found if isinstance(gpu, dict)] if isinstance(found, list) else []


def _json(text: str) -> Any:
    """The first JSON value that begins a line, behind whatever warnings; `None` where there is none."""
    for start in re.finditer(r"^[ \t]*[\[{]", text, re.MULTILINE):
        with suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(text, start.end() - 1)[0]
    return None


def _index(gpu: dict[str, Any]) -> int | None:
    index = gpu.get("gpu")
    return index if isinstance(index, int) and 0 <= index < 10_000 else None


def _part(tree: dict[str, Any], name: str) -> dict[str, Any]:
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def _first(tree: dict[str, Any], *names: str) -> str:
    """The first of these values that is a number, bare or as `{"value": …, "unit": …}`."""
    return next((f"{number:g}" for name in names if (number := _number(tree.get(name))) is not None), UNKNOWN)


def _number(value: Any) -> float | None:
    value = value.get("value") if isinstance(value, dict) else value
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return number if number is not None and 0 <= number < 1e12 else None


def _clock(gpu: dict[str, Any], domain: str) -> str:
    """Mean of the clocks of one kind: a GPU of several dies has several."""
    clocks = [clock for name, clock in _part(gpu, "clock").items() if name.startswith(domain)]
    found = [_number(clock.get("clk", clock) if isinstance(clock, dict) else clock) for clock in clocks]
    known = [number for number in found if number is not None]
    return f"{sum(known) / len(known):g}" if known else UNKNOWN


def _reasons(gpu: dict[str, Any]) -> str:
    """Why it slows down, joined by "+"; "none" where it says that nothing does."""
    throttle, said = _part(gpu, "throttle"), str(_part(gpu, "power").get("throttle_status"))
    states = {reason: str(throttle.get(f"{reason}_violation_status")) for reason in REASONS}
    active = [reason for reason, state in states.items() if state == "ACTIVE"]
    if active or said == "THROTTLED":
        return "+".join(active) or "throttled"
    return "none" if said == "UNTHROTTLED" or "NOT ACTIVE" in states.values() else UNKNOWN


def rows_of_rocm_smi(text: str) -> list[Row]:
    """A row each card of rocm-smi's JSON; it tells of no reasons to slow down."""
    return [_row_of_rocm_smi(index, card) for index, card in _cards(text)]


def _cards(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    found = _json(text)
    for name, card in found.items() if isinstance(found, dict) else ():
        index = name.removeprefix("card")
        if isinstance(card, dict) and name != index and index.isdecimal() and len(index) < 5:
            yield int(index), card


def _row_of_rocm_smi(index: int, card: dict[str, Any]) -> Row:
    used = _number(card.get("VRAM Total Used Memory (B)"))
    return [
        str(index),
        _first(card, "Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
        _megahertz(card, "sclk clock speed:"),
        _megahertz(card, "mclk clock speed:"),
        _first(card, "Temperature (Sensor edge) (C)", "Temperature (Sensor junction) (C)"),
        _first(card, "GPU use (%)"),
        _first(card, "GPU Memory Read/Write Activity (%)"),
        UNKNOWN if used is None else f"{used / MIB:.0f}",
        UNKNOWN,
    ]


def _megahertz(card: dict[str, Any], name: str) -> str:
    """A clock that is written as `(1500Mhz)`."""
    return _first({"clock": str(card.get(name)).strip("() ").removesuffix("Mhz")}, "clock")


def gpus_of_amd_smi(text: str) -> Iterator[Gpu]:
    for gpu in _listed(text):
        asic, size, driver = _part(gpu, "asic"), _part(gpu, "vram").get("size"), _part(gpu, "driver")
        memory = _number(size)
        yield Gpu(
            name=_name(asic.get("market_name")), memory_bytes=None if memory is None else int(memory) * MIB,
            driver=_name(driver.get("version"), None),
        )  # fmt: skip


def gpus_of_rocm_smi(text: str) -> Iterator[Gpu]:
    found = _json(text)
    driver = _name(_part(found if isinstance(found, dict) else {}, "system").get("Driver version"), None)
    for _, card in _cards(text):
        memory = _number(card.get("VRAM Total Memory (B)"))
        name = next(
            (card[key] for key in ("Card Series", "Card series", "Card Model", "Card model") if key in card), None
        )
        yield Gpu(name=_name(name), memory_bytes=None if memory is None else int(memory), driver=driver)


def _name(value: Any, unnamed: str | None = "AMD GPU") -> str | None:
    return value if isinstance(value, str) and value and value != "N/A" else unnamed
