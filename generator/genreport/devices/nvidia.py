"""NVIDIA's GPUs: NVML in this process where its bindings are installed, else nvidia-smi's own CSV."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from typing import Any

from genreport.devices.looks import MIB, UNKNOWN, Row, looks, printed
from genreport.records import Gpu

QUERY = "index,power.draw,clocks.sm,clocks.mem,temperature.gpu,utilization.gpu,utilization.memory,memory.used"
# a driver that has left one of these names behind refuses the whole query
REASONS = ("clocks_throttle_reasons.active", "clocks_event_reasons.active")
REFUSED = "not a valid field"
LISTED = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")


def gpus_in(text: str) -> Iterator[Gpu]:
    """The GPUs of nvidia-smi's CSV (name, MiB, driver); "[N/A]" is not known, other lines are none."""
    for line in text.splitlines():
        parts = [part.strip() for part in line.rsplit(",", 2)]
        if len(parts) == 3 and parts[0]:
            memory = int(parts[1]) << 20 if parts[1].isdecimal() else None
            yield Gpu(name=parts[0], memory_bytes=memory, driver=parts[2] if parts[2][:1].isdecimal() else None)


async def nvidia_smi(period_s: float) -> AsyncIterator[str]:
    """Its own CSV, as it comes."""
    for reasons in REASONS:
        command = (
            "nvidia-smi",
            f"--query-gpu={QUERY},{reasons}",
            "--format=csv,nounits",
            f"--loop-ms={period_s * 1e3:.0f}",
        )
        async with aclosing(printed(command)) as lines:
            async for line in lines:
                if REFUSED in line:
                    break
                yield line
            else:
                return


def bindings() -> Any:
    """The module of NVML's bindings where it is installed and finds a GPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
        try:
            return pynvml if pynvml.nvmlDeviceGetCount() else None
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # no bindings, no library, no driver, no GPU: all of them mean that something else must tell
        return None


async def nvml(period_s: float) -> AsyncIterator[str]:
    """The driver's answers in this process, asked for in a thread, so that the load does not wait for them."""
    module = bindings()
    if module is None:
        return
    await asyncio.to_thread(module.nvmlInit)
    try:
        async for line in looks(period_s, lambda: asyncio.to_thread(rows_of_nvml, module)):
            yield line
    finally:
        module.nvmlShutdown()


def rows_of_nvml(module: Any) -> list[Row]:
    """A row each GPU; what NVML refuses is unknown."""
    return [_row_of_nvml(module, index) for index in range(module.nvmlDeviceGetCount())]


def _row_of_nvml(n: Any, index: int) -> Row:
    handle = n.nvmlDeviceGetHandleByIndex(index)

    def told(*asks: Callable[[], Any]) -> str:
        """The first answer; an older driver knows the later question only."""
        for ask in asks:
            with suppress(n.NVMLError, AttributeError):
                return str(ask())
        return UNKNOWN

    return [
        str(index),
        told(lambda: f"{n.nvmlDeviceGetPowerUsage(handle) / 1e3:.2f}"),
        told(lambda: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_SM)),
        told(lambda: n.nvmlDeviceGetClockInfo(handle, n.NVML_CLOCK_MEM)),
        told(lambda: n.nvmlDeviceGetTemperature(handle, n.NVML_TEMPERATURE_GPU)),
        told(lambda: n.nvmlDeviceGetUtilizationRates(handle).gpu),
        told(lambda: n.nvmlDeviceGetUtilizationRates(handle).memory),
        told(
            # as nvidia-smi, without what the driver reserves
            lambda: n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2).used // MIB,
            lambda: n.nvmlDeviceGetMemoryInfo(handle).used // MIB,
        ),
        told(
            lambda: f"0x{n.nvmlDeviceGetCurrentClocksEventReasons(handle):016X}",
            lambda: f"0x{n.nvmlDeviceGetCurrentClocksThrottleReasons(handle):016X}",
        ),
    ]
