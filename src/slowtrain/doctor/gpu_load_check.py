"""The GPUs under a short load: link, clocks and temperature at work, and the rate of copies."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from slowtrain.machine.host.gpu_devices import Gpus

LOAD_MODULE = "slowtrain.capture.process.gpu_load"
PROGRESS_PREFIX = "slowtrain.load:"
LOAD_S_PER_GPU = 2.0  # of copying and of computing on each GPU: links and clocks rise within a fraction of a second
MAX_TOTAL_LOAD_S = 150.0  # for all GPUs together
SAMPLE_INTERVAL_S = 0.1
SAMPLED_KEYS = (
    "gpu_pcie_generation",
    "gpu_pcie_width",
    "gpu_sm_mhz",
    "gpu_celsius",
    "gpu_power_watts",
    "gpu_throttle_bits",
)


def sample_under_load(gpus: Gpus, framework: str | None, command: Sequence[str] | None = None) -> dict[str, Any]:
    """Samples of each GPU while a child process copies to it; ``unmeasured`` says why there are none."""
    if not gpus.handles:
        return {"unmeasured": "the driver shows no GPU", "devices": []}
    if framework is None and command is None:
        return {"unmeasured": "no installed framework sees the GPU, so nothing can load it", "devices": []}
    argv = list(command or (sys.executable, "-m", LOAD_MODULE, str(framework), str(LOAD_S_PER_GPU)))
    watch = _LoadSampler(gpus)
    # Numbers the GPUs as nvidia-smi does, so that the child's indices match the driver's.
    environ = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTHONUNBUFFERED": "1"}
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    try:
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environ) as child:
            timer = threading.Timer(MAX_TOTAL_LOAD_S, child.kill)
            timer.start()
            try:
                for line in child.stdout or ():
                    if line.startswith(PROGRESS_PREFIX.encode()):
                        watch.told(json.loads(line[len(PROGRESS_PREFIX) :]))
            finally:
                timer.cancel()
                watch.end()
    except (OSError, ValueError) as error:
        watch.end()
        return {"unmeasured": f"the load could not be started ({error})", "devices": []}
    if not watch.rows:
        return {"unmeasured": f"{framework} could not copy to the GPU", "devices": []}
    return {"unmeasured": None, "framework": framework, "devices": [watch.rows[i] for i in sorted(watch.rows)]}


class _LoadSampler:
    """Samples a GPU for as long as the child reports that it uses it."""

    def __init__(self, gpus: Gpus) -> None:
        self.gpus = gpus
        self.rows: dict[int, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def told(self, line: Mapping[str, Any]) -> None:
        index = int(line["device"])
        if line["begun"]:
            self.end()
            self._stop = threading.Event()
            self._thread = threading.Thread(target=self._look, args=(index, self._stop), daemon=True)
            self._thread.start()
        else:
            self.end()
            row = self.rows.setdefault(index, {"index": index})
            row |= {name: float(line[name]) for name in ("bytes_per_second", "computed_seconds") if name in line}

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _look(self, index: int, stop: threading.Event) -> None:
        """The maximum of each figure, and all reasons for a reduced clock that appeared.

        Of the clock the median: its maximum is from before anything could reduce it.
        """
        row: dict[str, Any] = {"index": index}
        clocks: list[float] = []
        while True:
            found = self.gpus.sample()
            for name in SAMPLED_KEYS:
                values = found.get(name) or []
                value = values[index] if index < len(values) else None
                if value is None:
                    continue
                key = name.removeprefix("gpu_")
                if key == "sm_mhz":
                    clocks.append(value)
                    continue
                row[key] = int(row.get(key, 0)) | int(value) if "bits" in key else max(row.get(key, value), value)
            if stop.wait(SAMPLE_INTERVAL_S):
                break
        if clocks:
            row["sm_mhz"] = statistics.median_high(clocks)
        self.rows[index] = row
