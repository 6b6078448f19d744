"""What the system itself shows of GPUs and their driver, without asking the driver: PCI, device files, modules.

By this a GPU that no framework sees is told from one that is not there.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from slowtrain.machine.cgroup import number, text

NVIDIA = "0x10de"  # PCI-SIG's number of the vendor
DISPLAY = "0x03"  # PCI class: VGA, 3D and other display controllers
MOST_DEVICES = 256
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # include/linux/proc_ns.h: PROC_PID_INIT_INO


def devices(root: Path = Path("/")) -> dict[str, Any]:
    """Kernel driver, device files and PCI devices below ``root``; None is what could not be read."""
    release = text(root / "proc/sys/kernel/osrelease").lower()
    return {
        "kernel_driver": _kernel_driver(root),
        "nouveau": (root / "sys/module/nouveau").exists(),
        "wsl": "microsoft" in release if release else None,
        "files": _files(root),
        "pci_gpus": _pci_gpus(root),
        "own_pid_namespace": _own_namespace(root),
    }


def _kernel_driver(root: Path) -> str | None:
    """Version of NVIDIA's kernel module that is loaded; a container shows the host's."""
    said = text(root / "proc/driver/nvidia/version")
    found = re.search(r"Kernel Module[^0-9]*?(?:for \S+ +)?(\d+\.\d+(?:\.\d+)?)", said)
    return found[1] if found else None


def _files(root: Path) -> list[dict[str, Any]] | None:
    """The device files through which a program reaches a GPU, and whether this process may."""
    folder = root / "dev"
    if not folder.is_dir():
        return None
    names = [*sorted(folder.glob("nvidia[0-9]*")), folder / "nvidiactl", folder / "nvidia-uvm", folder / "dxg"]
    return [
        {"path": f"/dev/{path.name}", "usable": os.access(path, os.R_OK | os.W_OK)} for path in names if path.exists()
    ]


def _pci_gpus(root: Path) -> list[dict[str, Any]] | None:
    """NVIDIA's display controllers on the PCI bus, whether or not there is a driver; None where there is no bus."""
    folder = root / "sys/bus/pci/devices"
    if not folder.is_dir():
        return None
    found = []
    for device in sorted(folder.iterdir())[:MOST_DEVICES]:
        if text(device / "vendor").strip() == NVIDIA and text(device / "class").startswith(DISPLAY):
            node = number(device / "numa_node")
            found.append(
                {
                    "address": device.name,
                    "device": text(device / "device").strip() or None,
                    "numa_node": node if node is not None and node >= 0 else None,
                }
            )
    return found


def _own_namespace(root: Path) -> bool | None:
    """Whether process numbers here are other than the driver's, as in a container."""
    try:
        return os.stat(root / "proc/self/ns/pid").st_ino != INITIAL_PID_NAMESPACE
    except OSError:
        return None
