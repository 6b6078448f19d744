"""GPUs, with a drawn NVML: a good card, an old driver, a broken one, none."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace
from typing import Any

import pytest

from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.tables.fact_access import describe_throttle_bits


class FakeError(Exception):
    """Stands for NVMLError."""


class FakeNvml:
    """One good card; what is not a method here is a function that this driver lacks."""

    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2

    def __init__(self, **refused: Exception) -> None:
        self.refused = refused

    def __getattribute__(self, name: str) -> Any:
        refused = object.__getattribute__(self, "__dict__").get("refused", {})
        if name in refused:

            def refuse(*_: Any) -> None:
                raise refused[name]

            return refuse
        return object.__getattribute__(self, name)

    def nvmlInit(self) -> None: ...  # noqa: N802  NVML's names

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"handle {index}"

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        return b"550.54"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 12040

    def nvmlDeviceGetName(self, handle: str) -> bytes:  # noqa: N802
        return b"Drawn T4"

    def nvmlDeviceGetMemoryInfo(self, handle: str, version: int | None = None) -> Any:  # noqa: N802
        # The second version of the call counts apart what the driver keeps for itself.
        if version:
            return SimpleNamespace(version=version, total=16_000, reserved=500, used=3_500)
        return SimpleNamespace(total=16_000, used=4_000)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=75, memory=20)

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:  # noqa: N802
        return {1: 900, 2: 5000}[clock]

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:  # noqa: N802
        return {1: 1590, 2: 5001}[clock]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: str) -> int:  # noqa: N802
        return 8

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: str) -> int:  # noqa: N802
        return 16

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        return 65_000

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: str) -> int:  # noqa: N802
        return 0x4 | 0x20 | 0x1

    def nvmlDeviceGetCudaComputeCapability(self, handle: str) -> tuple[int, int]:  # noqa: N802
        return (7, 5)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
        return [0, 0]

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=41, usedGpuMemory=None), SimpleNamespace(pid=os.getpid(), usedGpuMemory=9)]


def test_a_good_card() -> None:
    found = Gpus(FakeNvml()).facts()
    json.dumps(found, allow_nan=False)
    (device,) = found["devices"]
    assert (found["unmeasured"], found["cuda_version"]) == (None, "12.4")
    assert (device["name"], device["compute_capability"]) == ("Drawn T4", "7.5")
    assert (device["pcie_width"], device["pcie_width_max"]) == (8, 16)
    assert device["power_watts"] == 65
    assert device["throttle_reasons"] == ["power limit", "too hot (software)"]
    assert device["compute_processes"] == [{"pid": 41, "memory_used_bytes": None}]
    assert (device["memory_used_bytes"], device["memory_reserved_bytes"]) == (4_000, 500)
    assert device["mig_mode"] is False


@pytest.mark.parametrize(("refusal", "count"), [(6, 0), (4, None)])  # NVML: not found, no permission
def test_mig_without_an_instance_is_told_from_one_that_may_not_be_seen(refusal: int, count: int | None) -> None:
    class Split(FakeNvml):
        def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:  # noqa: N802
            return [1, 1]

        def nvmlDeviceGetMaxMigDeviceCount(self, handle: str) -> int:  # noqa: N802
            return 2

        def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: str, index: int) -> str:  # noqa: N802
            error = FakeError("no")
            error.value = refusal  # type: ignore[attr-defined]
            raise error

    (device,) = Gpus(Split()).facts()["devices"]
    assert (device["mig_mode"], device["mig_instances"]) == (True, count)


def test_what_the_driver_lacks_is_none() -> None:
    (device,) = Gpus(FakeNvml()).facts()["devices"]
    assert device["pcie_generation"] is None
    assert device["persistence_mode"] is None


def test_a_sample_has_a_value_for_each_card() -> None:
    found = Gpus(FakeNvml()).sample()
    assert found["gpu_util_share"] == [0.75]
    assert found["gpu_sm_mhz"] == [900.0]
    assert found["gpu_celsius"] == [None]


@pytest.mark.parametrize("name", [n for n in dir(FakeNvml) if n.startswith("nvml")])
def test_any_call_may_fail(name: str) -> None:
    gpus = Gpus(FakeNvml(**{name: FakeError("Not Supported")}))
    json.dumps([gpus.facts(), gpus.sample()], allow_nan=False)
    opening = name in ("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")
    assert (gpus.unmeasured == "Not Supported") == opening
    assert bool(gpus.handles) != opening


def test_without_a_driver_the_reason_is_kept() -> None:
    found = Gpus(FakeNvml(nvmlInit=FakeError("NVML Shared Library Not Found"))).facts()
    assert found["devices"] == []
    assert found["unmeasured"] == "NVML Shared Library Not Found"


def test_nothing_and_not_measured_are_told_apart() -> None:
    assert describe_throttle_bits(0) == []
    assert describe_throttle_bits(0x1) == []
    assert describe_throttle_bits(None) is None
