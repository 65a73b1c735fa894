"""The machine of a round: what it is, without a name that identifies it, and how fast its memory and cores are at best.

`python -m genreport.machine triad|product` measures one ceiling on the cores it is given and prints it as JSON.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from genreport import __version__, devices
from genreport.errors import GenreportError
from genreport.records import Ceiling, MachineFacts

if TYPE_CHECKING:
    import numpy as np

CPU_FOLDER = Path("/sys/devices/system/cpu")
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
BUDGET_S, AT_LEAST = 2.0, 5  # per ceiling: time for repetitions, and how many there are at least
BLOCK = 16_384  # elements of one step of the triad: three blocks stay in a core's own cache
SIDE = 1024  # of the matrices, doubled until a product takes a while
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cpu_set(cpus: str) -> set[int]:
    """The cores of a list such as "0-3,8"; ValueError says what is wrong with another text."""
    found: set[int] = set()
    for part in cpus.split(","):
        span = re.fullmatch(r"\s*([0-9]{1,4})(?:-([0-9]{1,4}))?\s*", part)
        cores = range(int(span[1]), int(span[2] or span[1]) + 1) if span else range(0)
        if not cores:
            raise ValueError(f"{cpus!r} is no list of cores such as 0 or 0-3,8")
        found.update(cores)
    return found


# ---- facts


def machine_facts() -> MachineFacts:
    """Processor, memory, system, accelerators and clocks of this machine; what can not be read is None or left out."""
    return MachineFacts(
        cpu=_cpu_name(_read("/proc/cpuinfo") or ""),
        cores=psutil.cpu_count() or 1,
        l3_bytes=l3_bytes(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        os=_os_name(),
        python=platform.python_version(),
        packages={"genreport": __version__, **_versions("httpx", "numpy")},
        gpus=devices.gpus(),
        clocks=_clocks(),
    )


def _read(path: Path | str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def _cpu_name(cpuinfo: str) -> str:
    found = re.search(r"^(?:model name|Hardware|cpu model)\s*:\s*(\S.*)$", cpuinfo, re.MULTILINE)
    return " ".join(found[1].split()) if found else platform.processor() or platform.machine()


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def _versions(*names: str) -> dict[str, str]:
    installed = {name: _version(name) for name in names}
    return {name: version for name, version in installed.items() if version}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def l3_bytes(cpus: set[int] | None = None, folder: Path = CPU_FOLDER) -> int | None:
    """Last-level cache that the given cores (None = all) can reach: every cache once, however many share it."""
    caches: dict[str, int] = {}
    for index in folder.glob("cpu[0-9]*/cache/index*"):
        if _read(index / "level") == "3" and (cpus is None or int(index.parts[-3][3:]) in cpus):
            size = re.fullmatch(r"(\d+)([KMG]?)", _read(index / "size") or "")
            if size:
                caches[_read(index / "shared_cpu_list") or str(index)] = (
                    int(size[1]) << " KMG".index(size[2] or " ") * 10
                )
    return sum(caches.values()) or None


def _clocks() -> dict[str, Any]:
    frequency = CPU_FOLDER / "cpu0/cpufreq"
    read = {
        "governor": _read(frequency / "scaling_governor"),
        "min_mhz": _mhz(_read(frequency / "cpuinfo_min_freq")),
        "max_mhz": _mhz(_read(frequency / "cpuinfo_max_freq")),
        "clocksource": _read(CLOCK_SOURCE),
        "monotonic_resolution_s": time.get_clock_info("monotonic").resolution,
    }
    return {name: value for name, value in read.items() if value is not None}


def _mhz(khz: str | None) -> float | None:
    return int(khz) / 1000 if khz and khz.isdecimal() else None


# ---- ceilings


def measure_ceilings(cpus: str | None, dtype: str) -> dict[str, Ceiling]:
    """`bandwidth` (B/s) and `flops` (FLOP/s) of the given cores (None = all that are allowed), each in about 3 s.

    `dtype` is the engine's: products are computed in float32, a lower bound for any other.
    """
    cores = sorted(cpu_set(cpus) if cpus else own_cores())
    triad, product = _measured("triad", cores), _measured("product", cores)
    told = {"source": "measured by the runner", "cpus": cpus}
    return {
        "bandwidth": Ceiling(**triad, **told, unit="B/s"),
        "flops": Ceiling(
            **product, **told, unit="FLOP/s", dtype="float32", lower_bound=dtype not in ("float32", "fp32")
        ),
    }


def own_cores() -> set[int]:
    """Cores that this process may use."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _measured(what: str, cores: list[int]) -> dict[str, Any]:
    """One measurement in a process of its own, so that its cores, threads and memory are its alone."""
    package = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    env = os.environ | dict.fromkeys(THREADS, str(len(cores))) | {"PYTHONPATH": path}
    command = [sys.executable, "-m", "genreport.machine", what, ",".join(map(str, cores))]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        why = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        why = str(error)
    raise GenreportError(
        f"could not be measured: {why}", where=f"{what} on cores {','.join(map(str, cores))}",
        cure="give the engine's `ceilings` in the plan with their source",
    )  # fmt: skip


def _timed(step: Callable[[], Any]) -> list[float]:
    """Seconds of repetitions, after one that only touches memory and starts threads."""
    step()
    times: list[float] = []
    end = time.perf_counter() + BUDGET_S
    while len(times) < AT_LEAST or (time.perf_counter() < end and len(times) < 200):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def triad(threads: int, array_bytes: int) -> dict[str, Any]:
    """Best rate of a = b + 3·c over three float64 arrays, a share of them for each thread; 24 B counted an element."""
    import numpy as np

    length = array_bytes // 8 // threads
    shares = [[np.full(length, value) for value in (0.0, 1.0, 2.0)] for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        times = _timed(lambda: list(pool.map(_triad_share, shares)))
    if any(float(a[place]) != 7.0 for a, _, _ in shares for place in (0, length // 2, -1)):
        raise ArithmeticError("the triad's result is wrong")
    moved = 24 * length * threads
    method = (
        f"STREAM triad a = b + s*c with numpy in {threads} thread(s), three float64 arrays of {8 * length * threads} B, "
        f"in blocks of {BLOCK} elements, so that the intermediate stays in cache; counted 2 reads and 1 write, 24 B an "
        f"element, no write-allocate; best of {len(times)}"
    )
    return {"value": moved / min(times), "samples": [moved / t for t in times], "method": method}


def _triad_share(share: list[np.ndarray]) -> None:
    import numpy as np

    a, b, c = share
    for start in range(0, len(a), BLOCK):
        part = slice(start, start + BLOCK)
        np.multiply(c[part], 3.0, out=a[part])
        np.add(a[part], b[part], out=a[part])


def product(threads: int) -> dict[str, Any]:
    """Best rate of a float32 matrix product, 2·n³ FLOP each, checked against float64 on some elements."""
    import numpy as np

    side = SIDE * (1 + (threads > 4) + 2 * (threads > 32))
    random = np.random.default_rng(1)
    a, b = (random.random((side, side), dtype=np.float32) for _ in range(2))
    out = np.empty((side, side), dtype=np.float32)
    times = _timed(lambda: np.matmul(a, b, out=out))
    for row, column in ((0, 0), (side // 2, side // 3), (side - 1, side - 1)):
        exact = float(a[row].astype(np.float64) @ b[:, column].astype(np.float64))
        if abs(float(out[row, column]) - exact) > 1e-4 * exact:
            raise ArithmeticError("the product's result is wrong")
    work = 2 * side**3
    method = f"numpy matrix product, float32, {side} x {side}, {threads} thread(s), 2n³ FLOP; best of {len(times)}"
    return {"value": work / min(times), "samples": [work / t for t in times], "method": method}


def _main(what: str, cpus: str) -> None:
    cores = cpu_set(cpus)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)  # before numpy counts cores and starts threads
    if what == "product":
        print(json.dumps(product(len(cores))))
        return
    # every array at least 4 times the cache; never more than half of the memory that is free
    wanted = max(4 * (l3_bytes(cores) or 32 << 20), 64 << 20)
    print(json.dumps(triad(len(cores), min(wanted, psutil.virtual_memory().available // 6))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
