"""What the system shows of GPUs and their driver without asking the driver: PCI, device files, modules.

This tells a GPU that no framework sees from a GPU that does not exist.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

from slowtrain.machine.host.cgroup_limits import read_number, read_text

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
    said = read_text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module[^0-9]*?(?:for \S+ +)?(\d+\.\d+(?:\.\d+)?)", said)
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
