"""Limits of containers, as the kernel's two interfaces state them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from slowtrain.machine.host import cgroup_limits

Draw = Callable[[Mapping[str, str]], Path]
V2 = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
V1 = (
    "31 20 0:27 {top} /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 20 0:28 {top} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)
FOLDER = "sys/fs/cgroup"


def version_2(group: str, files: Mapping[str, str]) -> dict[str, str]:
    mount = {
        "proc/self/mountinfo": V2,
        "proc/self/cgroup": f"0::{group}\n",
        f"{FOLDER}/cgroup.controllers": "cpu memory",
    }
    return {**mount, **{f"{FOLDER}/{name}": text for name, text in files.items()}}


def version_1(group: str, files: Mapping[str, str], top: str = "/") -> dict[str, str]:
    groups = f"5:memory:{group}\n4:cpu,cpuacct:{group}\n1:name=systemd:{group}\n0::/\n"
    mount = {"proc/self/mountinfo": V1.format(top=top), "proc/self/cgroup": groups}
    return {**mount, **{f"{FOLDER}/{name}": text for name, text in files.items()}}


def test_no_cgroups(draw: Draw) -> None:
    assert cgroup_limits.read_limits(draw({})) == cgroup_limits.Limits()


def test_version_2_in_a_container(draw: Draw) -> None:
    root = draw(version_2("/", {"cpu.max": "150000 100000\n", "memory.max": "8000\n", "cpu.stat": "nr_throttled 3\n"}))
    found = cgroup_limits.read_limits(root)
    assert (found.version, found.cpu_quota_cores, found.memory_limit_bytes) == (2, 1.5, 8000)


def test_version_2_without_limits(draw: Draw) -> None:
    found = cgroup_limits.read_limits(draw(version_2("/", {"cpu.max": "max 100000\n", "memory.max": "max\n"})))
    assert (found.version, found.cpu_quota_cores, found.memory_limit_bytes) == (2, None, None)


def test_the_tightest_ancestor_counts(draw: Draw) -> None:
    files = {
        "a/cpu.max": "100000 100000",
        "a/b/cpu.max": "400000 100000",
        "a/b/memory.max": "9000",
        "a/b/memory.high": "7000",
        "a/b/c/cpu.stat": "",
        "a/b/c/memory.max": "max",
    }
    found = cgroup_limits.read_limits(root := draw(version_2("/a/b/c", files)))
    assert (found.cpu_quota_cores, found.memory_limit_bytes) == (1.0, 7000)
    assert found.cpu_folder == root / FOLDER / "a/b/c"


def test_version_1(draw: Draw) -> None:
    files = {
        "cpu,cpuacct/job/cpu.cfs_quota_us": "250000",
        "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
        "cpu,cpuacct/cpu.cfs_quota_us": "-1",
        "cpu,cpuacct/cpu.cfs_period_us": "100000",
        "memory/job/memory.limit_in_bytes": "5000",
        "memory/memory.limit_in_bytes": "9223372036854771712",
    }
    found = cgroup_limits.read_limits(draw(version_1("/job", files)))
    assert (found.version, found.cpu_quota_cores, found.memory_limit_bytes) == (1, 2.5, 5000)


def test_version_1_in_a_container_that_shows_the_hosts_names(draw: Draw) -> None:
    files = {
        "cpu,cpuacct/cpu.cfs_quota_us": "50000",
        "cpu,cpuacct/cpu.cfs_period_us": "100000",
        "memory/memory.limit_in_bytes": "5000",
    }
    found = cgroup_limits.read_limits(draw(version_1("/docker/123", files, top="/docker/123")))
    assert (found.cpu_quota_cores, found.memory_limit_bytes) == (0.5, 5000)


def test_a_group_that_cannot_be_seen_from_here(draw: Draw) -> None:
    found = cgroup_limits.read_limits(draw(version_2("/../../elsewhere", {"cpu.max": "200000 100000"})))
    assert found.cpu_quota_cores == 2.0


@pytest.mark.parametrize("text", ["", "max", "0 0", "-1 100000", "many 100000", "1e5 1e5"])
def test_nonsense_is_no_limit(draw: Draw, text: str) -> None:
    assert (
        cgroup_limits.read_limits(draw(version_2("/", {"cpu.max": text, "memory.max": text}))).cpu_quota_cores is None
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "nr_periods 9\nnr_throttled 3\nthrottled_usec 2500000\n",
            {"throttled_periods": 3.0, "throttled_seconds": 2.5},
        ),
        ("nr_throttled 1\nthrottled_time 500000000\n", {"throttled_periods": 1.0, "throttled_seconds": 0.5}),
        ("usage_usec 9\n", {}),
    ],
)
def test_throttling(tmp_path: Path, text: str, found: dict[str, float]) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    assert cgroup_limits.read_throttling(tmp_path) == found


def test_used_memory_may_be_zero_and_may_be_unknown(tmp_path: Path) -> None:
    assert cgroup_limits.charged_bytes(tmp_path) is None
    (tmp_path / "memory.current").write_text("0\n")
    assert cgroup_limits.charged_bytes(tmp_path) == 0
