"""Probes for ``slowtrain memory`` and ``slowtrain batch``: the allocator's record at some batches, steps at others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from slowtrain.capture.requests import FOLDER, GRAPH
from slowtrain.errors import InputError
from slowtrain.machine.facts import free_bytes
from slowtrain.memory import record
from slowtrain.memory.record import Record
from slowtrain.memory.replay import Pool
from slowtrain.memory.scaling import Measured
from slowtrain.memory.sized import Sized, sized
from slowtrain.trace import Trace, build
from slowtrain.verify import probes
from slowtrain.verify.pairs import Bench
from slowtrain.verify.probes import Candidate, Probe, Rule, Treatment

PLACEHOLDER = "{batch}"  # in the script's arguments
FIRST_BATCH = 16  # where the placeholder leaves the choice to us
STEPS = 3  # the first makes the optimizer's variables, the second and third are alike
LEAST_LEFT_S = 20.0
LONGEST_S = 600.0
MOST_ROUNDS = 4
REACH = 2.2  # times the largest measured batch: further a line is not followed without another probe
# TensorFlow's CPU allocator of the same kind as a GPU's. With oneDNN it ends the process where memory is exhausted.
ALLOCATOR = {"TF_CPU_ALLOCATOR_USE_BFC": "true", "TF_ENABLE_ONEDNN_OPTS": "0"}
LIMIT = "TF_CPU_BFC_MEM_LIMIT_IN_MB"
BACKENDS = {"jax": "JAX", "torch": "PyTorch"}
UNTRAINED = "takes no training step, so there is nothing to measure"
SPARE_SHARE = 0.8  # of the host's free memory, that a probe on the CPU may take


@dataclass(frozen=True)
class Recorded:
    """One probe: the allocator's record at ``batch``, and bytes of variables by kind."""

    batch: int
    allocator: str
    record: Record
    variables: dict[str, int]
    seconds: float

    @property
    def measured(self) -> Measured:
        return Measured(self.batch, self.record)


class NoRecord(InputError):
    """What computes the script's steps has no allocator of TensorFlow's: they can be timed, and no more."""


class Sizing:
    """Runs the script at one batch size and another. ``facts`` are those of the first probe.

    ``texts`` stand in for files on the disk, by absolute path, as in a candidate.
    """

    def __init__(self, bench: Bench, texts: Mapping[str, str] | None = None) -> None:
        self.bench = bench
        self.texts = texts or {}
        self.given = any(PLACEHOLDER in a for a in bench.script.arguments)
        self.own = FIRST_BATCH if self.given else 0  # the script's own batch, once it is known
        self.recorded: list[Recorded] = []
        self.facts: Mapping[str, Any] = {}
        self._number = 0

    def first(self) -> Recorded:
        """The script as it is. Raises ``InputError`` where it does not train, or its batch is not known.

        ``NoRecord``: its own batch is known, and no memory.
        """
        found = self._record(self.own or None, "the script as it is")
        self.own = found.batch
        return found

    def at(self, batch: int) -> Recorded:
        """Raises ``InputError`` where the batch cannot be changed from outside."""
        found = self._record(batch, f"a batch of {batch}")
        if found.batch != batch:
            raise InputError(
                f"the batch of {self.bench.script.target} cannot be changed from outside: asked for {batch}, its steps "
                f"took {found.batch} samples; write {PLACEHOLDER} where its arguments give the batch size"
            )
        return found

    def _record(self, batch: int | None, what: str) -> Recorded:
        treatment = Treatment(requests=STEPS, environment={**ALLOCATOR, LIMIT: str(max(spare_bytes() >> 20, 64))})
        probe = self.run(batch, what, treatment, Rule(seconds=0.0))
        if probe.failed and not (probe.folder / FOLDER).exists():
            raise InputError(f"{self.bench.script.target} failed in a probe ({what}): {probe.failed}")
        trace = recording(probe, self.bench.script.target)
        taken = batch_of(trace)
        if probe.failed:
            raise InputError(f"{self.bench.script.target} failed in a probe ({what}): {probe.failed}")
        if not len(trace.steps) or not trace.steps.training:
            raise InputError(f"{self.bench.script.target} {UNTRAINED}")
        if not taken:
            raise InputError(
                f"the batch of {self.bench.script.target} is not known: its steps do not tell; "
                f"write {PLACEHOLDER} where its arguments give the batch size"
            )
        self.facts = self.facts or trace.facts
        backend = computing(trace)
        if backend != "tensorflow":
            self.own = taken
            raise NoRecord(
                f"{self.bench.script.target} computes with {BACKENDS.get(backend, backend)}, of whose memory "
                "TensorFlow's allocator keeps no record: slowtrain batch times its steps at other batches, and "
                "slowtrain oom reads the log of a run that was short of memory"
            )
        file = record.find(probe.folder / FOLDER)
        records = record.read(file, probe.folder / FOLDER / GRAPH) if file is not None else {}
        if not records:
            raise InputError(f"{self.bench.script.target} asked no allocator of TensorFlow's for memory while it ran")
        name = next((n for n in records if "gpu" in n.lower() and "cpu" not in n.lower()), max(records))
        facts = trace.fact("variables")
        found = Recorded(taken, name, records[name], dict(facts) if isinstance(facts, dict) else {}, probe.wall_s)
        self.recorded.append(found)
        return found

    def run(
        self, batch: int | None, what: str, treatment: Treatment, rule: Rule, longest_s: float = LONGEST_S
    ) -> Probe:
        """One process at that batch; None: as the script is."""
        bench = self.bench
        script = bench.script
        if batch is not None and self.given:
            script = replace(script, arguments=tuple(a.replace(PLACEHOLDER, str(batch)) for a in script.arguments))
        elif batch is not None:
            treatment = replace(treatment, rebatch=(self.own, batch))
        self._number += 1
        bench.say(f"measuring {what}")
        limit_s = max(min(bench.left_s, longest_s), LEAST_LEFT_S)
        return probes.run(
            script, Candidate(what, self.texts, treatment), rule, bench.folder / f"probe-{self._number}",
            limit_s=limit_s, seed=bench.seed, tick=bench.tick,
        )  # fmt: skip


def measure(sizing: Sizing, pool: Pool | None) -> Sized:
    """Two probes, and, where the answer lies far beyond them, more on the way to it while there is time."""
    if not sizing.recorded:
        first = sizing.first()
        sizing.at(first.batch // 2 if first.batch >= 2 * FIRST_BATCH else 2 * first.batch)
    found = sized([r.measured for r in sizing.recorded])
    for _ in range(MOST_ROUNDS if pool is not None else 0):
        reached = found.measured[-1].batch
        largest = found.largest(pool) if pool is not None else 0
        step = _next(reached, largest)
        if step is None or not time_for(sizing, step):
            break
        try:
            sizing.at(step)
        except InputError:
            break  # the data has no more, or this computer has less memory than the card: what is known stands
        found = sized([r.measured for r in sizing.recorded])
    return found


def spare_bytes() -> int:
    """What a probe on the CPU may take of the memory that is free here, within what a container leaves."""
    return int((free_bytes() or 0) * SPARE_SHARE)


def _next(reached: int, largest: int) -> int | None:
    """The next batch to measure on the way from ``reached`` to ``largest``; None where that is near enough."""
    if largest < 1 or reached * 0.6 <= largest <= reached * REACH:
        return None
    if largest < reached:
        return max(largest // 2, 1)
    return min(reached * 4, max(largest // 2, reached + 1))


def time_for(sizing: Sizing, batch: int) -> bool:
    """Whether a probe of that batch is likely to end in time: steps grow with their batch, the rest does not."""
    last = max(sizing.recorded, key=lambda r: r.batch)
    return sizing.bench.left_s > last.seconds * max(batch / last.batch, 1.0)


def computing(trace: Trace) -> str:
    """The framework that takes the steps, as Keras names it."""
    return "jax" if trace.on_jax else trace.fact("keras", "backend") or "tensorflow"


def batch_of(trace: Trace) -> int:
    """Samples of a step, as most of its steps have them; 0 where they do not tell."""
    sizes = np.asarray(trace.steps.size)
    sizes = sizes[sizes > 0]
    if not len(sizes):
        return 0
    values, counts = np.unique(sizes, return_counts=True)
    return int(values[counts.argmax()])


def recording(probe: Probe, target: str) -> Trace:
    """Raises ``InputError`` where the probe left none."""
    try:
        return build.load(probe.folder)
    except InputError as error:
        raise InputError(f"{target} could not be measured: {error}") from error
