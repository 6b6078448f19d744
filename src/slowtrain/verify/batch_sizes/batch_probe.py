"""Probes for ``slowtrain memory`` and ``slowtrain batch``: allocator records at some batches, step times at others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slowtrain.capture.windows.allocation_requests import GRAPH_FILE, JAX_REQUESTS_FOLDER, REQUESTS_FOLDER
from slowtrain.errors import InputError
from slowtrain.machine.host.host_facts import free_bytes
from slowtrain.memory import allocation_record
from slowtrain.memory.allocation_record import AllocationRecord, MeasuredBatch
from slowtrain.memory.peak_forecast import MemoryPool, PeakForecast, forecast_peaks
from slowtrain.model.measurements import Device
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.verify.measurement import probe_process
from slowtrain.verify.measurement.paired_trial import Bench
from slowtrain.verify.measurement.probe_process import Candidate, Probe, Rule, Treatment

PLACEHOLDER = "{batch}"  # in the script's arguments
FIRST_BATCH = 16  # used if the placeholder leaves the choice to us
ALLOCATOR_RECORD_STEPS = 3  # the first creates the optimizer's variables, the second and third are alike
MIN_TIME_LEFT_S = 20.0
MAX_SIZING_PROBE_S = 600.0
MAX_ROUNDS = 4
MAX_EXTRAPOLATION_FACTOR = 2.2  # times the largest measured batch: beyond it a line needs another probe
# Makes TensorFlow's CPU allocator one of the same kind as a GPU's. With oneDNN the process ends if memory is exhausted.
# One thread starts the ops of a GPU, whose kernels TensorFlow counts as inexpensive (op_kernel.cc, OpKernel's
# constructor). With several threads, as on a CPU, their order changes from run to run, and with it what fits.
ALLOCATOR_ENVIRONMENT = {
    "TF_CPU_ALLOCATOR_USE_BFC": "true",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_NUM_INTEROP_THREADS": "1",
}
LIMIT_VARIABLE = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
BACKENDS = {"jax": "JAX", "torch": "PyTorch"}
UNTRAINED = "takes no training step, so there is nothing to measure"
MAX_HOST_MEMORY_SHARE = 0.8  # of the host's free memory that a probe on the CPU may take


@dataclass(frozen=True)
class RecordedProbe:
    """One probe: the allocator's record at ``batch``, and bytes of variables by kind.

    ``limit_bytes``: the allocator's limit, if it reports one; ``card_bytes``: the card's memory.
    """

    batch: int
    allocator: str
    record: AllocationRecord
    variables: dict[str, int]
    seconds: float
    limit_bytes: int | None = None
    card_bytes: int | None = None

    @property
    def measured_batch(self) -> MeasuredBatch:
        return MeasuredBatch(self.batch, self.record)


class NoRecord(InputError):
    """The script's framework has no allocator that keeps a record, so that only steps can be timed."""


class BatchProbes:
    """Runs the script at different batch sizes. ``facts`` are those of the first probe.

    ``texts`` replace files on the disk, by absolute path, as in a candidate.
    """

    def __init__(self, bench: Bench, texts: Mapping[str, str] | None = None) -> None:
        self.bench = bench
        self.texts = texts or {}
        self.given = any(PLACEHOLDER in a for a in bench.script.arguments)
        self.own = FIRST_BATCH if self.given else 0  # the script's own batch, once it is known
        self.recorded: list[RecordedProbe] = []
        self.facts: Mapping[str, Any] = {}
        self._number = 0

    def first(self) -> RecordedProbe:
        """Records the unchanged script. Raises ``InputError`` if it does not train, or if its batch is unknown.

        Raises ``NoRecord`` if the batch is known but memory is not.
        """
        found = self._record(self.own or None, "the unchanged script")
        self.own = found.batch
        return found

    def at(self, batch: int) -> RecordedProbe:
        """Records another batch. Raises ``InputError`` if the batch cannot be changed from outside."""
        found = self._record(batch, f"a batch of {batch}")
        if found.batch != batch:
            raise InputError(
                f"the batch of {self.bench.script.target} cannot be changed from outside: {batch} samples were "
                f"requested, its steps took {found.batch}; write {PLACEHOLDER} where its arguments give the batch size"
            )
        return found

    def record_treatment(self, treatment: Treatment, what: str) -> RecordedProbe:
        """Records the script with another treatment. Raises ``InputError`` if it does not train."""
        return self._record(None, what, treatment)

    def _record(self, batch: int | None, what: str, treatment: Treatment | None = None) -> RecordedProbe:
        treatment = replace(
            treatment or Treatment(),
            requests=ALLOCATOR_RECORD_STEPS,
            environment={**ALLOCATOR_ENVIRONMENT, LIMIT_VARIABLE: str(max(spare_host_bytes() >> 20, 64))},
        )
        probe = self.run(batch, what, treatment, Rule(seconds=0.0))
        if probe.failed and not any((probe.folder / name).exists() for name in (REQUESTS_FOLDER, JAX_REQUESTS_FOLDER)):
            raise InputError(f"{self.bench.script.target} failed in a probe ({what}): {probe.failed}")
        trace = probe_trace(probe, self.bench.script.target)
        taken = step_batch(trace)
        if probe.failed:
            raise InputError(f"{self.bench.script.target} failed in a probe ({what}): {probe.failed}")
        if not len(trace.steps) or not trace.steps.training:
            raise InputError(f"{self.bench.script.target} {UNTRAINED}")
        if not taken:
            raise InputError(
                f"the batch of {self.bench.script.target} is unknown, because its steps do not show it; "
                f"write {PLACEHOLDER} where its arguments give the batch size"
            )
        self.facts = self.facts or trace.facts
        backend = computing_framework(trace)
        records = _read_records(probe.folder, backend)
        if backend != "tensorflow" and not records:
            self.own = taken
            raise NoRecord(
                f"{self.bench.script.target} computes with {BACKENDS.get(backend, backend)}, whose memory is not "
                "recorded: slowtrain batch times its steps at other batch sizes, and slowtrain oom reads the log "
                "of a run that ran out of memory"
            )
        if not records:
            raise InputError(f"{self.bench.script.target} requested no memory from TensorFlow's allocators")
        name = next((n for n in records if _is_gpu_allocator(n)), max(records))
        facts, allocator = trace.fact("variables"), trace.fact("allocator") or {}
        limit = allocator.get("limit_bytes")
        found = RecordedProbe(
            taken, name, records[name], dict(facts) if isinstance(facts, dict) else {}, probe.wall_s,
            limit_bytes=limit, card_bytes=int(limit / allocator["share"]) if limit else None,
        )  # fmt: skip
        self.recorded.append(found)
        return found

    def run(
        self, batch: int | None, what: str, treatment: Treatment, rule: Rule, longest_s: float = MAX_SIZING_PROBE_S
    ) -> Probe:
        """Runs one process at that batch; None means the script's own."""
        bench = self.bench
        script = bench.script
        if batch is not None and self.given:
            script = replace(script, arguments=tuple(a.replace(PLACEHOLDER, str(batch)) for a in script.arguments))
        elif batch is not None:
            treatment = replace(treatment, rebatch=(self.own, batch))
        self._number += 1
        bench.say(f"measuring {what}")
        limit_s = max(min(bench.left_s, longest_s), MIN_TIME_LEFT_S)
        return probe_process.run_probe(
            script, Candidate(what, self.texts, treatment), rule, bench.folder / f"probe-{self._number}",
            limit_s=limit_s, seed=bench.seed, tick=bench.tick,
        )  # fmt: skip


def measure_peaks(sizing: BatchProbes, pool: MemoryPool | None) -> PeakForecast:
    """Measures two batches and, if the answer lies far beyond them, more on the way to it while there is time."""
    if len(sizing.recorded) < 2:
        first = sizing.recorded[0] if sizing.recorded else sizing.first()
        sizing.at(first.batch // 2 if first.batch >= 2 * FIRST_BATCH else 2 * first.batch)
    found = forecast_peaks([r.measured_batch for r in sizing.recorded])
    for _ in range(MAX_ROUNDS if pool is not None else 0):
        reached = found.measured[-1].batch
        largest = found.largest_fit(pool) if pool is not None else 0
        step = _next_batch(reached, largest)
        if step is None or not has_time_for(sizing, step):
            break
        try:
            sizing.at(step)
        except InputError:
            break  # the data or this computer's memory ends here: what is known stands
        found = forecast_peaks([r.measured_batch for r in sizing.recorded])
    return found


def device_for_framework(sizing: BatchProbes, device: Device | None) -> Device | None:
    """The device as the script's framework uses it: sizes of cards in the table are what TensorFlow uses of them."""
    first = sizing.recorded[0] if sizing.recorded else None
    if device is None or device.known == "given" or first is None or not first.card_bytes or not first.limit_bytes:
        return device
    share = first.limit_bytes / first.card_bytes
    if device.known == "here":
        source = f"JAX's allocator reports that it takes {share:.0%} of it"
        return replace(device, limit_bytes=first.limit_bytes, source=source)
    source = (
        f"JAX's allocator takes {share:.0%} of a card here; the whole card is assumed to be {device.source}, which "
        "is less"
    )
    return replace(device, limit_bytes=int(device.limit_bytes * share), source=source)


def spare_host_bytes() -> int:
    """Host memory that a probe on the CPU may take, within the container's limit."""
    return int((free_bytes() or 0) * MAX_HOST_MEMORY_SHARE)


def _next_batch(reached: int, largest: int) -> int | None:
    """The next batch to measure between ``reached`` and ``largest``; None if the distance is small enough."""
    if largest < 1 or reached * 0.6 <= largest <= reached * MAX_EXTRAPOLATION_FACTOR:
        return None
    if largest < reached:
        return max(largest // 2, 1)
    return min(reached * 4, max(largest // 2, reached + 1))


def has_time_for(sizing: BatchProbes, batch: int) -> bool:
    """Whether a probe of that batch is likely to end in time: steps grow with the batch, the rest does not."""
    last = max(sizing.recorded, key=lambda r: r.batch)
    return sizing.bench.left_s > last.seconds * max(batch / last.batch, 1.0)


def computing_framework(trace: Trace) -> str:
    """The framework that takes the steps, by Keras' name for it."""
    return "jax" if trace.on_jax else trace.fact("keras", "backend") or "tensorflow"


def _read_records(folder: Path, backend: str) -> dict[str, AllocationRecord]:
    """Records by the allocator's name; for JAX only its GPU's, because its CPU has none."""
    where = {"tensorflow": REQUESTS_FOLDER, "jax": JAX_REQUESTS_FOLDER}.get(backend)
    file = allocation_record.find_profile(folder / where) if where is not None else None
    found = allocation_record.read_records(file, folder / REQUESTS_FOLDER / GRAPH_FILE) if file is not None else {}
    return found if backend == "tensorflow" else {name: one for name, one in found.items() if _is_gpu_allocator(name)}


def _is_gpu_allocator(allocator: str) -> bool:
    """True for ``GPU_0_bfc``;

    False for page-locked host memory (``xla_gpu_host_bfc``, ``bfc_cpu_allocator_for_gpu``).
    """
    name = allocator.lower()
    return "gpu" in name and "cpu" not in name and "host" not in name


def step_batch(trace: Trace) -> int:
    """Samples per step, of most steps; 0 if unknown."""
    sizes = np.asarray(trace.steps.size)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return 0
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[counts.argmax()])


def probe_trace(probe: Probe, target: str) -> Trace:
    """The probe's trace. Raises ``InputError`` if the probe left none."""
    try:
        return recording_trace.load_recording(probe.folder)
    except InputError as error:
        raise InputError(f"{target} could not be measured: {error}") from error
