import json
import os

import pytest

from genreport import machine
from genreport.errors import GenreportError
from genreport.machine import cpu_set, l3_bytes, machine_facts, measure_ceilings, product, triad


def test_facts_name_the_machine_without_identifying_it():
    facts = machine_facts()
    assert facts.cores >= 1
    assert facts.memory_bytes > 2**28
    assert facts.packages["genreport"]
    assert facts.clocks["monotonic_resolution_s"] > 0
    assert "hostname" not in facts.model_dump_json()


@pytest.mark.parametrize(
    ("cpuinfo", "name"),
    [("processor : 0\nmodel name\t: AMD  EPYC 9354\n", "AMD EPYC 9354"), ("Hardware : BCM2711\n", "BCM2711")],
)
def test_the_processors_name_is_found_in_what_kernels_write(cpuinfo, name):
    assert machine._cpu_name(cpuinfo) == name


def cache(folder, cpu, index, level, size, shared):
    place = folder / f"cpu{cpu}" / "cache" / f"index{index}"
    place.mkdir(parents=True)
    for name, value in (("level", level), ("size", size), ("shared_cpu_list", shared)):
        (place / name).write_text(f"{value}\n")


def test_a_shared_cache_counts_once_and_only_where_the_cores_reach_it(tmp_path):
    for cpu in range(4):
        cache(tmp_path, cpu, 2, 2, "1024K", cpu)
        cache(tmp_path, cpu, 3, 3, "32768K" if cpu < 2 else "16M", "0-1" if cpu < 2 else "2-3")
    assert l3_bytes(None, tmp_path) == 48 * 2**20
    assert l3_bytes({0, 1}, tmp_path) == 32 * 2**20
    assert l3_bytes({3}, tmp_path) == 16 * 2**20
    assert l3_bytes(None, tmp_path / "none") is None


def test_a_list_of_cores_is_read_as_the_kernel_writes_it():
    assert cpu_set("0-3,8") == {0, 1, 2, 3, 8}
    for wrong in ("", "a", "3-1", "1-", "-1", "0,,1", "99999"):
        with pytest.raises(ValueError, match="no list of cores"):
            cpu_set(wrong)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_triad_and_the_product_check_their_results(monkeypatch, threads):
    monkeypatch.setattr(machine, "BUDGET_S", 0)
    found = triad(threads, 1 << 20)
    assert found["value"] == max(found["samples"]) > 0
    assert len(found["samples"]) == machine.AT_LEAST
    assert product(threads)["value"] > 0
    monkeypatch.setattr(machine, "_triad_share", lambda share: None)
    with pytest.raises(ArithmeticError):
        triad(threads, 1 << 20)


def test_the_product_counts_as_a_lower_bound_for_other_types(monkeypatch):
    monkeypatch.setattr(machine, "_measured", lambda what, cores: {"value": 1.0, "samples": [1.0], "method": what})
    assert measure_ceilings("0", "bf16")["flops"].lower_bound
    found = measure_ceilings("0", "float32")
    assert not found["flops"].lower_bound
    assert (found["bandwidth"].unit, found["bandwidth"].cpus, found["flops"].dtype) == ("B/s", "0", "float32")


def test_cores_the_machine_lacks_are_told(monkeypatch):
    with pytest.raises(GenreportError, match=r"triad on cores 4000: could not be measured: .*ceilings"):
        measure_ceilings("4000", "bf16")


@pytest.mark.slow
def test_the_ceilings_of_one_core_are_measured_on_that_core():
    found = measure_ceilings(str(min(os.sched_getaffinity(0))), "bf16")
    assert 1e8 < found["bandwidth"].value < 1e12
    assert 1e8 < found["flops"].value < 1e13
    assert "1 thread" in found["flops"].method
    json.loads(found["bandwidth"].model_dump_json())
