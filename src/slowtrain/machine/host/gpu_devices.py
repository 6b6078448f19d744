"""GPUs: what the system shows without asking the driver (PCI, device files, modules), and what NVML reports.

The first tells a GPU that no framework sees from a GPU that does not exist. Every call of NVML is guarded: what a GPU
or a driver does not report is None.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from slowtrain.machine.host.cgroup_limits import read_number, read_text
from slowtrain.machine.tables.fact_access import describe_throttle_bits

NVIDIA_VENDOR = "0x10de"  # PCI-SIG's vendor id
DISPLAY_CLASS = "0x03"  # PCI class: VGA, 3D and other display controllers
MAX_PCI_DEVICES = 256
OPENED_DEVICE_FILES = frozenset({"nvidiactl", "nvidia-uvm", "dxg"})  # opening these does not wake a GPU
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # include/linux/proc_ns.h: PROC_PID_INIT_INO


def read_gpu_devices(root: Path = Path("/")) -> dict[str, Any]:
    """Kernel driver, device files and PCI devices below ``root``; what could not be read is None."""
    release = read_text(root / "proc/sys/kernel/osrelease").lower()
    wsl = "microsoft" in release if release else None
    displays = _display_controllers(root)
    return {
        "kernel_driver": _kernel_driver_version(root),
        "nouveau": (root / "sys/module/nouveau").exists(),
        "wsl": wsl,
        "wsl_driver": _has_wsl_driver(root) if wsl else None,
        "files": _device_files(root),
        "pci_gpus": _select_by_vendor(displays, nvidia=True),
        "other_gpus": _select_by_vendor(displays, nvidia=False),
        "own_pid_namespace": _has_own_pid_namespace(root),
    }


def _kernel_driver_version(root: Path) -> str | None:
    """Version of NVIDIA's loaded kernel module; a container shows the host's."""
    text = read_text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module[^0-9]*?(?:for \S+ +)?(\d+\.\d+(?:\.\d+)?)", text)
    return found[1] if found else None


def _has_wsl_driver(root: Path) -> bool:
    """Whether NVIDIA's Windows driver installed its library in WSL; /dev/dxg exists for every vendor's GPU."""
    return any((root / "usr/lib/wsl/lib" / name).exists() for name in ("libcuda.so.1", "nvidia-smi"))


def _device_files(root: Path) -> list[dict[str, Any]] | None:
    """The device files through which a program reaches a GPU, and whether this process may open them."""
    folder = root / "dev"
    if not folder.is_dir():
        return None
    names = [*sorted(folder.glob("nvidia[0-9]*")), folder / "nvidiactl", folder / "nvidia-uvm", folder / "dxg"]
    return [_describe_device_file(path) for path in names if path.exists()]


def _describe_device_file(path: Path) -> dict[str, Any]:
    usable = os.access(path, os.R_OK | os.W_OK)
    refused = _open_error(path) if usable and path.name in OPENED_DEVICE_FILES else None
    return {
        "path": f"/dev/{path.name}", "usable": usable and refused is None, "refused": refused,
        "group": _restricted_group(path),
    }  # fmt: skip


def _open_error(path: Path) -> str | None:
    """The system's error name if the file cannot be opened.

    A container's device rules can deny what permissions allow.
    """
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, "EIO")
    return None


def _restricted_group(path: Path) -> str | None:
    """The group whose members may use the file, unless everybody may."""
    try:
        import grp  # absent on Windows

        found = path.stat()
        open_to_all = found.st_mode & 0o006 == 0o006
        return grp.getgrgid(found.st_gid).gr_name if found.st_mode & 0o060 == 0o060 and not open_to_all else None
    except (ImportError, KeyError, OSError):
        return None


def _display_controllers(root: Path) -> list[dict[str, Any]] | None:
    """The display controllers on the PCI bus, with or without a driver; None if there is no PCI bus."""
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        return None
    found = []
    for device in sorted(folder.iterdir())[:MAX_PCI_DEVICES]:
        if read_text(device / "class").startswith(DISPLAY_CLASS):
            node = read_number(device / "numa_node")
            found.append(
                {
                    "address": device.name,
                    "vendor": read_text(device / "vendor").strip() or None,
                    "device": read_text(device / "device").strip() or None,
                    "numa_node": node if node is not None and node >= 0 else None,
                }
            )
    return found


def _select_by_vendor(displays: list[dict[str, Any]] | None, *, nvidia: bool) -> list[dict[str, Any]] | None:
    return None if displays is None else [row for row in displays if (row["vendor"] == NVIDIA_VENDOR) is nvidia]


def _has_own_pid_namespace(root: Path) -> bool | None:
    """Whether process ids here differ from the driver's, as in a container."""
    try:
        return os.stat(root / "proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE
    except OSError:
        return None


MAX_GPUS = 16
NVML_NOT_FOUND = 6  # NVML_ERROR_NOT_FOUND


class Gpus:
    """An open connection to the driver; ``unmeasured`` is the reason if there is none."""

    def __init__(self, nvml: ModuleType | Any | None = None) -> None:
        self.nvml: Any = nvml
        self.handles: list[Any] = []
        self.unmeasured: str | None = None
        try:
            if self.nvml is None:
                import pynvml

                self.nvml = pynvml
            self.nvml.nvmlInit()
            count = self.nvml.nvmlDeviceGetCount()
            self.handles = [self.nvml.nvmlDeviceGetHandleByIndex(i) for i in range(min(count, MAX_GPUS))]
        except Exception as error:  # noqa: BLE001  no driver, a broken one, or one without permission
            self.unmeasured = " ".join(str(error).split()) or type(error).__name__

    def facts(self) -> dict[str, Any]:
        """Driver and devices; ``unmeasured`` says why there are none."""
        return {
            "unmeasured": self.unmeasured,
            "driver_version": _decode(self._ask("nvmlSystemGetDriverVersion")) if self.handles else None,
            "cuda_version": _format_cuda_version(self._ask("nvmlSystemGetCudaDriverVersion")) if self.handles else None,
            "devices": [self._device(i, handle) for i, handle in enumerate(self.handles)],
        }

    def sample(self) -> dict[str, list[float | None]]:
        """Current figures: one list per quantity, in the order of the devices; empty without GPUs."""
        found: dict[str, list[float | None]] = {}
        sm = self._constant("NVML_CLOCK_SM", 1)
        for handle in self.handles:
            use = self._ask("nvmlDeviceGetUtilizationRates", handle)
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            row = {
                "gpu_util_share": _scale_or_none(getattr(use, "gpu", None), 0.01),
                "gpu_memory_util_share": _scale_or_none(getattr(use, "memory", None), 0.01),
                "gpu_memory_used_bytes": _scale_or_none(getattr(memory, "used", None), 1.0),
                "gpu_sm_mhz": _scale_or_none(self._ask("nvmlDeviceGetClockInfo", handle, sm), 1.0),
                "gpu_power_watts": _scale_or_none(self._ask("nvmlDeviceGetPowerUsage", handle), 0.001),
                "gpu_pcie_generation": _scale_or_none(self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle), 1.0),
                "gpu_pcie_width": _scale_or_none(self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle), 1.0),
                "gpu_celsius": _scale_or_none(self._ask("nvmlDeviceGetTemperature", handle, 0), 1.0),
                "gpu_throttle_bits": _scale_or_none(self._throttle_bits(handle), 1.0),
            }
            for name, value in row.items():
                found.setdefault(name, []).append(value)
        return found

    def _device(self, index: int, handle: Any) -> dict[str, Any]:
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        clock, top = "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo"
        sm, mem = self._constant("NVML_CLOCK_SM", 1), self._constant("NVML_CLOCK_MEM", 2)
        capability = self._ask("nvmlDeviceGetCudaComputeCapability", handle)
        return {
            "index": index,
            "name": _decode(self._ask("nvmlDeviceGetName", handle)),
            "memory_total_bytes": getattr(memory, "total", None),
            "memory_used_bytes": getattr(memory, "used", None),
            "memory_reserved_bytes": self._reserved_bytes(handle),
            "compute_capability": ".".join(map(str, capability)) if capability else None,
            "pcie_generation": self._ask("nvmlDeviceGetCurrPcieLinkGeneration", handle),
            "pcie_generation_max": self._ask("nvmlDeviceGetMaxPcieLinkGeneration", handle),
            "pcie_width": self._ask("nvmlDeviceGetCurrPcieLinkWidth", handle),
            "pcie_width_max": self._ask("nvmlDeviceGetMaxPcieLinkWidth", handle),
            "sm_mhz": self._ask(clock, handle, sm),
            "sm_mhz_max": self._ask(top, handle, sm),
            "memory_mhz": self._ask(clock, handle, mem),
            "memory_mhz_max": self._ask(top, handle, mem),
            "throttle_reasons": describe_throttle_bits(self._throttle_bits(handle)),
            "power_watts": _scale_or_none(self._ask("nvmlDeviceGetPowerUsage", handle), 0.001),
            "power_limit_watts": _scale_or_none(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle), 0.001),
            "power_limit_default_watts": _scale_or_none(
                self._ask("nvmlDeviceGetPowerManagementDefaultLimit", handle), 0.001
            ),
            "celsius": self._ask("nvmlDeviceGetTemperature", handle, 0),
            "celsius_slowdown": self._ask("nvmlDeviceGetTemperatureThreshold", handle, 1),
            "persistence_mode": _bool_or_none(self._ask("nvmlDeviceGetPersistenceMode", handle)),
            "compute_mode": self._ask("nvmlDeviceGetComputeMode", handle),
            **self._mig_facts(handle),
            "compute_processes": self._processes(handle),
            "graphics_processes": self._processes(handle, "nvmlDeviceGetGraphicsRunningProcesses"),
            "pci_address": _decode(getattr(self._ask("nvmlDeviceGetPciInfo", handle), "busId", None)),
            "display_active": _bool_or_none(self._ask("nvmlDeviceGetDisplayActive", handle)),
            **self._health_facts(handle),
        }

    def _mig_facts(self, handle: Any) -> dict[str, Any]:
        """Whether MIG is on, and the number of instances; None for the number if they may not be counted."""
        on = _bool_or_none((self._ask("nvmlDeviceGetMigMode", handle) or [None])[0])
        most = self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) if on else None
        found = None if most is None else [self._has_mig_instance(handle, index) for index in range(int(most))]
        return {"mig_mode": on, "mig_instances": None if found is None or None in found else sum(map(bool, found))}

    def _has_mig_instance(self, handle: Any, index: int) -> bool | None:
        """Whether this place holds an instance; None if the driver refuses to say."""
        try:
            self.nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except Exception as error:  # noqa: BLE001  as in _ask
            return False if getattr(error, "value", None) == NVML_NOT_FOUND else None
        return True

    def _reserved_bytes(self, handle: Any) -> int | None:
        """Memory that the driver keeps for itself; the first version of the call counts it as used."""
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle, self._constant("nvmlMemory_v2", 0x02000028))
        reserved = getattr(memory, "reserved", None)
        return None if reserved is None else int(reserved)

    def _health_facts(self, handle: Any) -> dict[str, Any]:
        """Memory errors since the driver was loaded and over the GPU's life, and the repairs that followed."""
        corrected, uncorrected = 0, 1  # NVML_MEMORY_ERROR_TYPE_*
        volatile, aggregate = 0, 1  # NVML_*_ECC
        errors = "nvmlDeviceGetTotalEccErrors"
        remapped = self._ask("nvmlDeviceGetRemappedRows", handle)
        pages = [self._ask("nvmlDeviceGetRetiredPages", handle, cause) for cause in (0, 1)]
        return {
            "ecc_mode": _bool_or_none((self._ask("nvmlDeviceGetEccMode", handle) or [None])[0]),
            "ecc_corrected": self._ask(errors, handle, corrected, volatile),
            "ecc_uncorrected": self._ask(errors, handle, uncorrected, volatile),
            "ecc_uncorrected_ever": self._ask(errors, handle, uncorrected, aggregate),
            "retired_pages": None if None in pages else sum(len(found) for found in pages),
            "retired_pages_pending": _bool_or_none(self._ask("nvmlDeviceGetRetiredPagesPendingStatus", handle)),
            "remapped_rows": None if remapped is None else int(remapped[0]) + int(remapped[1]),
            "remapping_pending": None if remapped is None else bool(remapped[2]),
            "remapping_failed": None if remapped is None else bool(remapped[3]),
        }

    def _processes(
        self, handle: Any, name: str = "nvmlDeviceGetComputeRunningProcesses"
    ) -> list[dict[str, int | None]] | None:
        found, own = self._ask(name, handle), os.getpid()
        if found is None:
            return None
        return [{"pid": p.pid, "memory_used_bytes": getattr(p, "usedGpuMemory", None)} for p in found if p.pid != own]

    def _throttle_bits(self, handle: Any) -> int | None:
        # NVML renamed "throttle" to "event" in driver 535; old drivers only know the old name.
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons", handle)
        if bits is None:
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        return None if bits is None else int(bits)

    def _constant(self, name: str, default: int) -> int:
        return int(getattr(self.nvml, name, default))

    def _ask(self, name: str, *arguments: Any) -> Any:
        """The answer of NVML's function ``name``, or None if it has none."""
        call: Callable[..., Any] | None = getattr(self.nvml, name, None)
        if call is None:
            return None
        try:
            return call(*arguments)
        except Exception:  # noqa: BLE001  NVMLE  NVMLError, or a symbol that this driver lacks
            return None


def _decode(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)


def _scale_or_none(value: Any, factor: float) -> float | None:
    return None if value is None else float(value) * factor


def _bool_or_none(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _format_cuda_version(number: int | None) -> str | None:
    """12040 -> "12.4"."""
    return None if number is None else f"{number // 1000}.{number % 1000 // 10}"
