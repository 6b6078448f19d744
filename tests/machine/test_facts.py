"""Facts of drawn computers, and of this one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from slowtrain.machine.host import host_facts as module
from slowtrain.machine.host.environment_variables import RELEVANT_VARIABLES, relevant_settings
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.host.host_facts import free_bytes, machine_facts, parse_core_list

Draw = Callable[[Mapping[str, str]], Path]
NO_GPUS = Gpus(SimpleNamespace())


def test_a_drawn_computer(draw: Draw) -> None:
    found = machine_facts(draw({}), environ={"OMP_NUM_THREADS": "1", "HOME": "/home/me"}, gpus=NO_GPUS)
    cpu, memory = found["cpu"], found["memory"]
    assert (cpu["model"], cpu["logical_cores"], cpu["physical_cores"]) == ("Drawn CPU 3000", 8, 4)
    assert (cpu["affinity_cores"], cpu["usable_cores"]) == ([0, 1, 2, 3, 6], 5.0)
    assert (cpu["max_mhz"], cpu["governor"], cpu["virtual"]) == (3500, "powersave", True)
    assert cpu["flags"] == ["avx2", "avx512f", "fma"]
    assert (memory["total_bytes"], memory["available_bytes"]) == (16000 * 1024, 9000 * 1024)
    assert (memory["swap_total_bytes"], memory["swap_free_bytes"]) == (2000 * 1024, 1500 * 1024)
    assert found["numa_nodes"] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert found["numa_distances"] == [[10, 21], [21, 10]]
    assert found["platform"]["distribution"] == {"id": "drawn", "name": "Drawn Linux 7"}
    assert found["environment"] == {"OMP_NUM_THREADS": "1"}
    assert found["gpu"]["unmeasured"]


def test_what_is_free(draw: Draw) -> None:
    assert free_bytes(draw({})) == 9000 * 1024


def test_what_is_free_in_a_container(draw: Draw) -> None:
    """Pages of files that it read long ago are its own as well, and are had for the asking."""
    root = draw(
        {
            "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory",
            "sys/fs/cgroup/memory.max": "5000000",
            "sys/fs/cgroup/memory.current": "4000000",
            "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 700000\nactive_file 9\n",
        }
    )
    assert free_bytes(root) == 1_700_000


def test_a_container_leaves_less(draw: Draw) -> None:
    root = draw(
        {
            "proc/self/mountinfo": "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory",
            "sys/fs/cgroup/cpu.max": "150000 100000",
            "sys/fs/cgroup/memory.max": "1000000",
            "sys/fs/cgroup/memory.current": "500",
            "sys/fs/cgroup/cpu.stat": "nr_periods 20\nnr_throttled 7\nthrottled_usec 1000000\n",
            ".dockerenv": "",
        }
    )
    found = machine_facts(root, environ={}, gpus=NO_GPUS)
    assert found["cpu"]["usable_cores"] == 1.5
    assert found["memory"]["usable_bytes"] == 1_000_000
    assert found["platform"]["container"] == "docker"
    assert found["cgroup"] == {
        "version": 2,
        "cpu_quota_cores": 1.5,
        "memory_limit_bytes": 1_000_000,
        "memory_used_bytes": 500,
        "periods": 20.0,
        "throttled_periods": 7.0,
        "throttled_seconds": 1.0,
    }


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"proc/1/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n"}, {}, "kubernetes"),
        ({"proc/1/cgroup": "12:cpu:/docker/0123\n"}, {}, "docker"),
        ({"run/.containerenv": ""}, {}, "podman"),
        ({"proc/1/cgroup": "0::/machine.slice/libpod-1.scope\n"}, {}, "podman"),
        ({".singularity.d/env/90-environment.sh": ""}, {}, "apptainer"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_kinds_of_containers(draw: Draw, files: dict[str, str], environ: dict[str, str], kind: str | None) -> None:
    assert machine_facts(draw(files), environ=environ, gpus=NO_GPUS)["platform"]["container"] == kind


def test_a_computer_that_tells_nothing(tmp_path: Path) -> None:
    found = machine_facts(tmp_path, environ={}, gpus=NO_GPUS)
    json.dumps(found, allow_nan=False)
    assert found["memory"]["swap_total_bytes"] is None
    assert found["memory"]["shm_total_bytes"] is None
    assert found["cgroup"]["version"] is None
    assert found["numa_nodes"] == []


def test_this_computer() -> None:
    found = machine_facts()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert 0 < found["cpu"]["usable_cores"] <= found["cpu"]["logical_cores"]
    assert found["memory"]["usable_bytes"] > 0


@pytest.mark.parametrize(
    ("said", "cores"), [("0-2,8\n", [0, 1, 2, 8]), ("5", [5]), ("", []), ("0,2-3,7-7", [0, 2, 3, 7])]
)
def test_core_list(said: str, cores: list[int]) -> None:
    assert parse_core_list(said) == cores


def test_an_empty_setting_is_a_setting() -> None:
    assert relevant_settings({"CUDA_VISIBLE_DEVICES": ""}) == {"CUDA_VISIBLE_DEVICES": ""}


def test_every_setting_has_a_reason_and_its_own_name() -> None:
    assert all(name == name.upper() and len(reason) > 10 for name, reason in RELEVANT_VARIABLES.items())


def test_the_file_system_of_the_working_folder(draw: Draw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getcwd", lambda: "/data/my set/x")
    lines = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:9 / /data rw - nfs4 h:/d rw\n"
    lines += "3 1 0:9 / /data/my\\040set rw - fuse s rw\n"
    found = module.machine_facts(draw({"proc/self/mountinfo": lines}), environ={}, gpus=NO_GPUS)
    assert found["working_folder"]["filesystem"] == "fuse"
