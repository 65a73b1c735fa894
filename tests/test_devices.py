"""Samples of GPUs, from composed output: no card was there when these tests were written."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport import devices, rounds
from genreport.devices import amd, gpus, nvidia
from genreport.devices.amd import gpus_of_amd_smi, gpus_of_rocm_smi, rows_of_amd_smi, rows_of_rocm_smi
from genreport.devices.looks import COLUMNS, HEAD
from genreport.devices.nvidia import gpus_in, rows_of_nvml
from genreport.figures import compute
from genreport.records import Gpu
from test_runner import engine, measured, plan_of, sweep

AMD_METRIC = [
    {
        "gpu": 0,
        "usage": {"gfx_activity": {"value": 87, "unit": "%"}, "umc_activity": {"value": 41, "unit": "%"}},
        "power": {"socket_power": {"value": 542, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
        "clock": {
            "gfx_0": {"clk": {"value": 2100, "unit": "MHz"}},
            "gfx_1": {"clk": {"value": 1900, "unit": "MHz"}},
            "mem_0": {"clk": {"value": 1300, "unit": "MHz"}},
            "vclk_0": {"clk": "N/A"},
        },
        "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}},
        "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 121344, "unit": "MB"}},
        "throttle": {"ppt_violation_status": "ACTIVE", "socket_thermal_violation_status": "ACTIVE"},
    },
    {"gpu": 1, "power": {"socket_power": 141, "throttle_status": "THROTTLED"}},
]
AMD_STATIC = [
    {"gpu": 0, "asic": {"market_name": "Composed MI"}, "vram": {"size": {"value": 196592, "unit": "MB"}},
     "driver": {"version": "6.12"}},
    {"gpu": 1, "asic": {"market_name": "N/A"}},
]  # fmt: skip
ROCM = {
    "card0": {
        "Current Socket Graphics Package Power (W)": "212.0", "sclk clock speed:": "(2500Mhz)",
        "mclk clock speed:": "(1249Mhz)", "Temperature (Sensor edge) (C)": "63.0", "GPU use (%)": "42",
        "VRAM Total Memory (B)": "25753026560", "VRAM Total Used Memory (B)": "8589934592",
        "Card Series": "Composed Radeon",
    },
    "card10": {"Average Graphics Package Power (W)": "22.0"},
    "system": {"Driver version": "6.7.0"},
}  # fmt: skip


def test_a_look_of_amd_smi_has_the_columns_of_nvidia_smi() -> None:
    busy, other = rows_of_amd_smi(json.dumps(AMD_METRIC))
    assert busy == ["0", "542", "2000", "1300", "71", "87", "41", "121344", "ppt+socket_thermal"]
    assert other == ["1", "141", *["[N/A]"] * 6, "throttled"]
    assert len(busy) == len(other) == len(COLUMNS)


def test_amd_smi_may_warn_first_and_wrap_its_list() -> None:
    text = "WARNING: User is missing a group\n[INFO] no list\n" + json.dumps({"gpu_data": AMD_METRIC}, indent=1)
    assert [row[0] for row in rows_of_amd_smi(text)] == ["0", "1"]


def test_a_gpu_that_nothing_slows_down_says_so() -> None:
    calm = {"gpu": 0, "throttle": {"ppt_violation_status": "NOT ACTIVE", "prochot_violation_status": "N/A"}}
    assert rows_of_amd_smi(json.dumps([calm, {"gpu": 1}]))[0][-1] == "none"
    assert rows_of_amd_smi(json.dumps([calm, {"gpu": 1}]))[1][-1] == "[N/A]"


def test_a_look_of_rocm_smi_has_the_columns_of_nvidia_smi() -> None:
    first, second = rows_of_rocm_smi(json.dumps(ROCM))
    assert first == ["0", "212", "2500", "1249", "63", "42", "[N/A]", "8192", "[N/A]"]
    assert second == ["10", "22", *["[N/A]"] * 7]


def test_gpus_are_named_by_each_tool() -> None:
    nvidia = (
        "NVIDIA GeForce RTX 4090, 24564, 570.86.10\nNVIDIA GB10, a variant, [N/A], 580.95.05\nFailed to initialize\n"
    )
    assert list(gpus_in(nvidia)) == [
        Gpu(name="NVIDIA GeForce RTX 4090", memory_bytes=24564 * 2**20, driver="570.86.10"),
        Gpu(name="NVIDIA GB10, a variant", memory_bytes=None, driver="580.95.05"),
    ]
    assert list(gpus_of_amd_smi(json.dumps(AMD_STATIC))) == [
        Gpu(name="Composed MI", memory_bytes=196592 * 2**20, driver="6.12"),
        Gpu(name="AMD GPU", memory_bytes=None, driver=None),
    ]
    assert list(gpus_of_rocm_smi(json.dumps(ROCM))) == [
        Gpu(name="Composed Radeon", memory_bytes=25753026560, driver="6.7.0"),
        Gpu(name="AMD GPU", memory_bytes=None, driver="6.7.0"),
    ]


nested = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["gpu", "gpu_data", "power", "socket_power", "value", "clock", "gfx_0", "clk", "throttle", "temperature", "edge",
         "asic", "market_name", "vram", "size", "card0", "card٣", "system", "sclk clock speed:"]), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(nested, st.text(max_size=20))
def test_no_answer_of_a_tool_breaks_the_reading(tree: object, before: str) -> None:
    for text in (json.dumps(tree), f"{before}\n{json.dumps(tree)}", before):
        for row in (*rows_of_amd_smi(text), *rows_of_rocm_smi(text)):
            assert len(row) == len(COLUMNS)
            assert row[0].isascii()
            assert row[0].isdecimal()
        for found in (gpus_in(text), gpus_of_amd_smi(text), gpus_of_rocm_smi(text)):
            assert all(gpu.name for gpu in found)


# ------------------------------------------------------------------------------------- a machine with a tool


def put(folder: Path, tool: str, script: str) -> None:
    (folder / tool).write_text(f"#!/bin/sh\n{script}\n")
    (folder / tool).chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the first on PATH, on a machine without NVML."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(nvidia, "bindings", lambda: None)
    return tmp_path


async def first_lines(count: int, period_s: float = 0.01) -> list[str]:
    """What the machine's source tells at first; it is left as a level leaves it."""
    source, found = devices.source(), []
    assert source is not None

    async def listen() -> None:
        async for line in source(period_s):
            found.append(line)

    task = asyncio.create_task(listen())
    while len(found) < count and not task.done():  # noqa: ASYNC110 - the sampler tells nobody
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return found[:count]


def test_a_machine_without_a_tool_has_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvidia, "bindings", lambda: None)
    assert devices.source() is None
    assert gpus() == []


@pytest.mark.anyio
async def test_a_driver_that_dropped_the_old_name_is_asked_by_the_new_one(tools: Path) -> None:
    put(tools, "nvidia-smi", """case "$1" in
*throttle_reasons*) echo 'Field "clocks_throttle_reasons.active" is not a valid field to query.'; exit 2;;
*) echo 'index, power.draw [W]'; echo '0, 71.20'; exec sleep 60;;
esac""")  # fmt: skip
    assert await first_lines(2) == ["index, power.draw [W]\n", "0, 71.20\n"]


@pytest.mark.anyio
async def test_a_driver_that_fails_ends_the_samples(tools: Path) -> None:
    put(tools, "nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not talk to the driver'; exit 9")
    assert await first_lines(5) == ["NVIDIA-SMI has failed because it could not talk to the driver\n"]
    assert gpus() == []


@pytest.mark.anyio
async def test_amds_tools_are_asked_again_and_again(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd, "PERIOD_S", 0.01)
    put(tools, "amd-smi", f"cat <<'X'\n{json.dumps(AMD_METRIC)}\nX")
    found = await first_lines(5)
    assert found[0] == HEAD
    assert found[1].startswith("0, 542, 2000, ")
    assert found[3] == found[1]


@pytest.mark.anyio
async def test_rocm_smi_tells_where_nothing_newer_does(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd, "PERIOD_S", 0.01)
    put(tools, "rocm-smi", f"cat <<'X'\n{json.dumps(ROCM)}\nX")
    assert (await first_lines(2))[1].startswith("0, 212, 2500, ")
    assert [gpu.name for gpu in gpus()] == ["Composed Radeon", "AMD GPU"]


# ------------------------------------------------------------------------------------- NVML


class NVML:
    """What nvidia-ml-py offers, of a machine with two GPUs; the second has no power sensor."""

    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, nvmlMemory_v2 = 1, 2, 0, 7
    running = 0

    @classmethod
    def nvmlInit(cls) -> None:
        cls.running += 1

    @classmethod
    def nvmlShutdown(cls) -> None:
        cls.running -= 1

    @staticmethod
    def nvmlDeviceGetCount() -> int:
        return 2

    @staticmethod
    def nvmlDeviceGetHandleByIndex(index: int) -> int:
        return index

    @classmethod
    def nvmlDeviceGetPowerUsage(cls, handle: int) -> int:
        if handle:
            raise cls.NVMLError("Not Supported")
        return 71_200

    @staticmethod
    def nvmlDeviceGetClockInfo(handle: int, kind: int) -> int:
        return {1: 1500, 2: 9501}[kind]

    @staticmethod
    def nvmlDeviceGetTemperature(handle: int, kind: int) -> int:
        return 60

    @staticmethod
    def nvmlDeviceGetUtilizationRates(handle: int) -> object:
        return type("Use", (), {"gpu": 90, "memory": 50})

    @staticmethod
    def nvmlDeviceGetMemoryInfo(handle: int, version: int | None = None) -> object:
        assert version == 7
        return type("Memory", (), {"used": 10_000 * 2**20 + 1})

    @staticmethod
    def nvmlDeviceGetCurrentClocksThrottleReasons(handle: int) -> int:
        return 4


def test_nvml_tells_what_nvidia_smi_would_write() -> None:
    assert rows_of_nvml(NVML) == [
        ["0", "71.20", "1500", "9501", "60", "90", "50", "10000", "0x0000000000000004"],
        ["1", "[N/A]", "1500", "9501", "60", "90", "50", "10000", "0x0000000000000004"],
    ]


@pytest.mark.anyio
async def test_nvml_is_asked_before_any_tool_and_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "bindings", lambda: NVML)
    found = await first_lines(5)
    assert found[:2] == [HEAD, "0, 71.20, 1500, 9501, 60, 90, 50, 10000, 0x0000000000000004\n"]
    assert found[3] == found[1]
    assert NVML.running == 0


# ------------------------------------------------------------------------------------- a whole round


LOOK = """case "$1" in
*name,memory.total*) echo 'Composed 4090, 24564, 570.86.10';;
*) echo 'index, power.draw [W]'
   while :; do echo '0, 71.20, 1500, 9501, 60, 90, 50, 10000, 0x0000000000000004'; sleep 0.02; done;;
esac"""


def test_a_round_holds_what_the_tool_said_while_each_level_ran(tools: Path, tmp_path_factory) -> None:
    put(tools, "nvidia-smi", LOOK)
    folder = tmp_path_factory.mktemp("round")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    slow = engine(port, "--gap-s=0.1")
    found = measured(plan_of(folder, slow, tests=[sweep(levels=[1], repeats=1)]), folder / "round")
    assert list(rounds.check(found.path)) == []
    assert [gpu.name for gpu in found.machine.gpus] == ["Composed 4090"]
    text = found.text(found.levels[0].file(rounds.GPU))
    assert text.startswith("t_us, index, power.draw [W]\n")
    figures = compute(found)
    assert figures.ledger["concurrency.fake.c1.power"].value == pytest.approx(71.2)
    assert figures.ledger["concurrency.fake.c1.gpu_memory.max"].value == 10_000 * 2**20
    assert figures.ledger["concurrency.fake.c1.throttle.sw_power_cap"].value == 1
    assert figures.ledger["engine.fake.memory.card.measured"].value == 10_000 * 2**20
