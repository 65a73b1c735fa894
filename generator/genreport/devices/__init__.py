"""The accelerators of this machine: what they are, and what they draw, hold and run at while a level runs.

Whatever tells it, a look gives a line a GPU in the columns of nvidia-smi's query, so that a round has one form; `looks` has
them. What a driver does not tell is "[N/A]", as nvidia-smi writes it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from genreport.devices import amd, nvidia
from genreport.records import Gpu

# a period in seconds -> lines of CSV, the first one names the columns
Source = Callable[[float], AsyncIterator[str]]
TOOL_S = 20.0


def source() -> Source | None:
    """What tells of this machine's GPUs, the cheapest first; `None` where nothing does."""
    if nvidia.bindings() is not None:
        return nvidia.nvml
    tools = {"nvidia-smi": nvidia.nvidia_smi, "amd-smi": amd.amd_smi, "rocm-smi": amd.rocm_smi}
    return next((lines for tool, lines in tools.items() if shutil.which(tool)), None)


def gpus() -> list[Gpu]:
    """Name, memory and driver of each GPU, as far as a tool tells; a tool that fails tells of none."""
    told: dict[tuple[str, ...], Callable[[str], Iterable[Gpu]]] = {
        nvidia.LISTED: nvidia.gpus_in,
        amd.AMD_LISTED: amd.gpus_of_amd_smi,
        amd.ROCM_LISTED: amd.gpus_of_rocm_smi,
    }
    for command, read in told.items():
        if (text := _output(command)) is not None and (found := list(read(text))):
            return found
    return []


def _output(command: Sequence[str]) -> str | None:
    if not shutil.which(command[0]):
        return None
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, check=True).stdout
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
