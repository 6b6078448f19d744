"""All facts about a computer as one document: gathered here, or read from a file.

The installed frameworks are asked in a child process each. The GPUs are also read under a short load.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from slowtrain.errors import InputError
from slowtrain.machine.host import cuda_libraries
from slowtrain.machine.host import data_folder as folders
from slowtrain.machine.host.gpu_devices import Gpus
from slowtrain.machine.host.host_facts import SCHEMA, machine_facts
from slowtrain.machine.samples.sampler import Sampler
from slowtrain.machine.tables.fact_access import has_nvidia_gpu

SAMPLE_S = 0.5  # during which this process sleeps: long against a scheduler's time slice, short for the user


def sample_busy_cores(
    gpus: Gpus, root: Path = Path("/"), sleep: Callable[[float], None] = time.sleep
) -> dict[str, Any] | None:
    """``busy_cores`` of ``cores`` over ``seconds`` of sleep; None if the system does not report it."""
    looked = Sampler(root, gpus)
    try:
        sleep(SAMPLE_S)
        shares = looked.sample().get("cpu_share")
    finally:
        looked.close()
    if not isinstance(shares, list) or not shares:
        return None
    return {"busy_cores": round(sum(share or 0.0 for share in shares), 3), "cores": len(shares), "seconds": SAMPLE_S}


BUILD_MODULE = "slowtrain.capture.inspection.framework_builds"  # a name, because only capture/ may import a framework
ANSWER_PREFIX = "slowtrain.build:"
FRAMEWORK_NAMES = ("tensorflow", "torch", "jax")
MAX_ANSWER_S = 120.0
# A line of a framework's log with one of these words is about GPUs. The first few such lines are kept.
GPU_LOG_WORDS = ("cuda", "cudnn", "gpu", "libcu", "dlopen", "dynamic library", "driver", "rocm")
MAX_LOG_LINES = 6
# Start-up messages that do not matter: factories registered twice, and instructions that a CPU build could use.
HARMLESS_LOG_WORDS = ("factory", "cpu_feature_guard", "onednn", "absl::initializelog", "tf-trt")


def installed_frameworks() -> tuple[str, ...]:
    """The frameworks that could be imported."""
    return tuple(name for name in FRAMEWORK_NAMES if importlib.util.find_spec(name) is not None)


def ask_framework(name: str, environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The answer of one framework. ``error``: it could not be asked. ``said``: its own log lines about GPUs."""
    own = {"TF_CPP_MIN_LOG_LEVEL": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONUNBUFFERED": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", BUILD_MODULE, name], capture_output=True, timeout=MAX_ANSWER_S, check=False,
            env={**(os.environ if environ is None else environ), **own},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"error": f"did not answer in {MAX_ANSWER_S:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    log_lines = done.stderr.decode(errors="replace").splitlines()
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if line.startswith(ANSWER_PREFIX):
            found = json.loads(line.removeprefix(ANSWER_PREFIX))
            if isinstance(found.get("loaded"), list):
                found["loaded"] = cuda_libraries.describe_loaded_files(found["loaded"])
            return {**found, "said": gpu_log_lines(log_lines)}
    last = next((line for line in reversed(log_lines) if line.strip()), "no answer")
    return {"error": f"ended with exit code {done.returncode}: {last.strip()[:200]}", "said": gpu_log_lines(log_lines)}


def gpu_log_lines(lines: Sequence[str]) -> list[str]:
    """The lines about GPUs in a framework's log, each once, without time and thread."""
    found = []
    for line in lines:
        lower = line.lower()
        if any(word in lower for word in GPU_LOG_WORDS) and not any(word in lower for word in HARMLESS_LOG_WORDS):
            found.append(line.partition("] ")[2].strip() or line.strip())
    return [line[:300] for line in dict.fromkeys(found)][:MAX_LOG_LINES]


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
                        watch.handle_line(json.loads(line[len(PROGRESS_PREFIX) :]))
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

    def handle_line(self, line: Mapping[str, Any]) -> None:
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
            row["sm_mhz"] = sorted(clocks)[len(clocks) // 2]
        self.rows[index] = row


MAX_LOG_READ_S = 10.0
XID_PATTERN = re.compile(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")


LOG_COMMANDS = (("dmesg",), ("journalctl", "--dmesg", "--quiet", "--no-pager"))  # more users may read the journal


def read_xids(text: str | None = None) -> dict[str, Any]:
    """``xids``: code, count and PCI address; None with ``unmeasured`` if the log cannot be read."""
    why = None
    for command in LOG_COMMANDS if text is None else ():
        text, refused = _run_log_command(command)
        why = why or refused
        if text is not None:
            break
    if text is None:
        return {"xids": None, "unmeasured": why}
    counted = Counter((match[1], int(match[2])) for match in XID_PATTERN.finditer(text))
    return {
        "xids": [{"address": a, "code": code, "count": n} for (a, code), n in sorted(counted.items())],
        "unmeasured": None,
    }


def _run_log_command(command: Sequence[str]) -> tuple[str | None, str | None]:
    """What the command prints of the kernel's log, or why it prints nothing."""
    name = command[0]
    try:
        done = subprocess.run(command, capture_output=True, timeout=MAX_LOG_READ_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, f"{name} is not installed here"
    if done.returncode:
        return None, f"{name} needs root here: try sudo {name} | grep -i xid"
    text = done.stdout.decode(errors="replace")
    return (text, None) if text.strip() else (None, f"{name} shows nothing here")


MAX_FACTS_FILE_BYTES = 8 << 20
REQUIRED_SECTIONS = ("platform", "cpu", "cgroup", "memory", "gpu")  # sections that every document has


def gather_facts(
    *,
    data: Path | None = None,
    load: bool = True,
    gpus: Gpus | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Gathers every fact. Takes as long as importing the frameworks does; ``say`` is called with progress messages."""
    gpus = gpus or Gpus()
    found = machine_facts(gpus=gpus)
    found["others"] = sample_busy_cores(gpus)
    builds: dict[str, Any] = {}
    for name in installed_frameworks():
        say(f"asking {name} for its build and the GPUs it sees")
        builds[name] = ask_framework(name)
    found["frameworks"] = builds
    cuda = [b for b in builds.values() if b.get("cuda_build")]
    names = [n for b in cuda for n in cuda_libraries.required_libraries(b.get("cuda_version"), b.get("cudnn_version"))]
    names += [n for b in cuda for n in cuda_libraries.optional_libraries(b.get("cuda_version"))]
    names = list(dict.fromkeys(names or (["libcuda.so.1"] if has_nvidia_gpu(found) else [])))
    found["libraries"] = cuda_libraries.find_libraries(names, os.environ) if names else []
    found["kernel_log"] = read_xids()
    if load and gpus.handles:
        say("copying to the GPU briefly to read its link and clocks under load")
    by = next((name for name, b in builds.items() if b.get("gpus")), None)
    found["load"] = sample_under_load(gpus, by) if load else {"unmeasured": "--no-load was given", "devices": []}
    if data is not None:
        say(f"reading from {data}")
        found["data"] = folders.measure_folder(data)
    return found


def read_facts_file(path: Path) -> dict[str, Any]:
    """Reads a facts file. Raises ``InputError`` if it is not one, has another version, or is damaged."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_FACTS_FILE_BYTES + 1)
        if len(text) > MAX_FACTS_FILE_BYTES:
            raise InputError(f"{path} is too large for a machine's facts; `slowtrain doctor --json` writes them")
        # Read as bytes, because PowerShell's redirection writes UTF-16 or a byte-order mark. NaN is not JSON.
        found = json.loads(text, parse_constant=_reject_constant)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); `slowtrain doctor --json` writes one") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON; `slowtrain doctor --json` writes a machine's facts") from error
    if isinstance(found, dict) and isinstance(found.get("facts"), dict):
        found = found["facts"]  # the doctor's complete answer
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        problem = f"has the schema {schema!r}" if schema is not None else "has no schema"
        raise InputError(f"{path} {problem}, not {SCHEMA!r}; `slowtrain doctor --json` writes a machine's facts")
    lacking = [name for name in REQUIRED_SECTIONS if not isinstance(found.get(name), dict)]
    if lacking:
        raise InputError(f"{path} is damaged: it has no {lacking[0]!r}; write it again with `slowtrain doctor --json`")
    whole: dict[str, Any] = found
    return whole


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")
