"""The process may use less of the machine than there is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slowtrain.causes import Cause, fact_causes
from slowtrain.model import Category, Evidence, Signal
from slowtrain.model.inspections import CheckState
from slowtrain.number_text import format_number
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.whatif import Drop, Remedy

MIN_BUSY_CORE_SHARE = 0.75  # of the allowed cores at work: with less, the limit does not bind
MIN_COMPUTING_SHARE = 0.3  # of the step in ops: with less, more cores have little to speed up
MIN_BOUND_COMPUTING_SHARE = 0.5  # of the step in ops: with more, ops are the limit whatever the processor time is
# Share of the ideal gain. Ops in clinic/'s pairs gained a tenth to six tenths of it from a second core, on virtual
# processors (often two per core). The range of the saving reaches from nothing to nearly all.
SPLIT_GAIN_SHARE = 0.5
HOST_GAIN_SHARE = 0.5  # of the framework's other work, assumed: half of it has to wait for the ops in any case
LIMIT_CHECKS = ("cores", "quota")  # of the doctor: they are wrong only if the limit binds the steps
SETTERS = {
    "affinity": ("sched_setaffinity", "cpu_affinity"),
    "threads": (
        "set_intra_op_parallelism_threads",
        "set_inter_op_parallelism_threads",
        "OMP_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    ),
    "quota": (),
}
LIMIT_WORDS = {
    "affinity": "the process is bound to {allowed:g} of the machine's {total:g} cores",
    "quota": "a container's quota leaves {allowed:g} of the machine's {total:g} cores",
    "threads": "TensorFlow is set to compute with {allowed:g} thread at a time on {total:g} cores",
}
CONFIG_OPTIONS = ("intra_op_parallelism_threads", "inter_op_parallelism_threads")  # of a ConfigProto


class CoreLimit(Struct, frozen=True):
    """A limit of ``kind`` allows ``allowed`` of ``total`` cores. The steps keep ``busy`` cores busy."""

    kind: str
    allowed: float
    total: float
    busy: float = 0.0


class LimitedHost(Cause[CoreLimit | Evidence]):
    """The process is allowed fewer cores than the machine has, and the step computes on all of them."""

    title = "The process may use only a part of the machine"
    machine_topic = "host"
    doctor_rank = 90
    needs = frozenset({Signal.STEPS, Signal.MACHINE})
    words = (*SETTERS["affinity"], *SETTERS["threads"], *CONFIG_OPTIONS)

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not _has_facts_only(trace):
            return super().wants(trace)
        checks = fact_causes.cause_checks(trace, self.id)
        limits = [c for c in checks if c.name in LIMIT_CHECKS and c.state is CheckState.NOTED]
        # Whether the limit binds the steps of a profile was not measured.
        unknown = (
            fact_causes.has_given_facts(trace) and limits and fact_causes.wrong_checks_evidence(trace, self.id) is None
        )
        return frozenset({Signal.FACTS, *({Signal.MACHINE} if unknown else ())}) | fact_causes.missing_fact_signals(
            trace, self.id
        )

    def matters_in(self, trace: Trace) -> bool:
        return fact_causes.has_given_facts(trace)  # settings alone have no price

    def find(self, trace: Trace) -> CoreLimit | Evidence | None:
        return fact_causes.wrong_checks_evidence(trace, self.id) if _has_facts_only(trace) else _find_core_limit(trace)

    def evidence(self, trace: Trace, finding: CoreLimit | Evidence) -> Evidence:
        if isinstance(finding, Evidence):
            return finding
        limit = LIMIT_WORDS[finding.kind].format(allowed=finding.allowed, total=finding.total)
        return Evidence(
            f"{limit}; the steps keep {format_number(finding.busy, 2)} cores busy",
            {"cores_allowed": finding.allowed, "cores": finding.total, "busy_cores": finding.busy},
            self.lines_to_change(trace, finding),
        )

    def remedies(self, trace: Trace, finding: CoreLimit | Evidence) -> Sequence[Remedy]:
        if isinstance(finding, Evidence):
            return []
        missing = 1 - finding.allowed / finding.total
        # Ops are divided over the cores. What starts them and what makes input then partly runs at the same time.
        saved = {Category.DEVICE: op_work.splittable_op_ms(trace) * missing * SPLIT_GAIN_SHARE}
        for category in (Category.DISPATCH, Category.INPUT):
            saved[category] = trace.mean(category) * missing * HOST_GAIN_SHARE
        return [Drop(saved, 0.0, (0.0, 1.8))]


def _has_facts_only(trace: Trace) -> bool:
    """Whether there is no run of this machine: in the doctor, and for facts next to a profile."""
    return bool(trace.fact("doctor")) or fact_causes.has_given_facts(trace)


def _find_core_limit(trace: Trace) -> CoreLimit | None:
    """The tightest limit that binds."""
    total = float(trace.fact("machine", "cpu", "logical_cores") or 0)
    cpu_ms = trace.facts.get("cpu_ms_per_step")
    if total < 2 or not trace.step_ms or trace.on_accelerator:
        return None
    # A script may bind its own thread after the recorder's has started. The smaller number is that of the steps.
    bound = [trace.fact("affinity_cores"), len(trace.fact("machine", "cpu", "affinity_cores", default=()) or ())]
    limits = {
        "affinity": min((float(n) for n in bound if n), default=total),
        "quota": float(trace.fact("machine", "cgroup", "cpu_quota_cores") or total),
        "threads": float(trace.fact("threads", "intra_op") or total),
    }
    kind = min(limits, key=lambda kind: limits[kind])
    if limits[kind] >= total:
        return None
    computing = trace.mean(Category.DEVICE) / trace.step_ms
    busy = float(cpu_ms or 0.0) / trace.step_ms
    # Other processes on the cores reduce the processor time of this one. Ops that fill the step are a sign as well.
    is_busy = bool(cpu_ms) and busy >= MIN_BUSY_CORE_SHARE * limits[kind]
    binds = computing >= MIN_BOUND_COMPUTING_SHARE or (computing >= MIN_COMPUTING_SHARE and is_busy)
    return CoreLimit(kind, limits[kind], total, busy) if binds and op_work.splittable_op_ms(trace) > 0 else None
