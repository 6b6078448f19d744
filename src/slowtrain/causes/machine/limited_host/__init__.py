"""The process may use less of the machine than there is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause, judged
from slowtrain.causes.machine.limited_host import fix
from slowtrain.model import Category, Effect, Evidence, Place, Prescription, Signal
from slowtrain.model.answers.doctor_sheet import CheckState
from slowtrain.number_text import format_number
from slowtrain.script.locations import source_locations
from slowtrain.script.locations.recorded_sources import edit_project, recorded_source
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import op_work
from slowtrain.values import dataclass
from slowtrain.whatif import Drop, Remedy

SATURATED = 0.75  # of the cores that are left, at work: less, and the limit does not bind
FILLED = 0.5  # of the step in ops: what computes is the limit, whatever the processor time says
COMPUTING = 0.3  # of the step in ops: less, and more cores have little to speed up
# Of ideal: what ops gained from a second core in clinic/'s pairs was a tenth to six tenths of it, on virtual processors
# (often two to a core). The range of the saving reaches from nothing to nearly all.
SPLIT = 0.5
BESIDE = 0.5  # of the framework's other work, assumed: half of it has to wait for the ops in any case
LIMITS = ("cores", "quota")  # of the doctor's checks: those that are wrong only where steps come up against them
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


@dataclass(frozen=True)
class Limit:
    """``kind`` of limit: ``given`` cores of ``board``."""

    kind: str
    given: float
    board: float


SAYS = {
    "affinity": "the process is bound to {given:g} of the machine's {board:g} cores",
    "quota": "a container's quota leaves {given:g} of the machine's {board:g} cores",
    "threads": "TensorFlow was told to compute with {given:g} thread at a time on {board:g} cores",
}


class LimitedHost(Cause[Evidence]):
    """The process is allowed fewer cores than the machine has, and the step computes on all it is allowed."""

    title = "The process may use only a part of the machine"
    machine_topic = "host"
    doctor_rank = 90
    needs = frozenset({Signal.STEPS, Signal.MACHINE})
    words = (*SETTERS["affinity"], *SETTERS["threads"], *fix.OPTIONS)

    def wants(self, trace: Trace) -> frozenset[Signal]:
        if not _by_facts(trace):
            return super().wants(trace)
        limits = [c for c in judged.checks(trace, self.id) if c.name in LIMITS and c.state is CheckState.NOTED]
        # Whether the steps come up against it, beside a profile nobody measured.
        binds = judged.given(trace) and limits and judged.evidence(trace, self.id) is None
        return frozenset({Signal.FACTS, *({Signal.MACHINE} if binds else ())}) | judged.missing(trace, self.id)

    def matters_in(self, trace: Trace) -> bool:
        return judged.given(trace)  # settings alone, which nothing prices

    def find(self, trace: Trace) -> Evidence | None:
        if _by_facts(trace):
            return judged.evidence(trace, self.id)
        limit = _limit(trace)
        if limit is None:
            return None
        cpu = float(trace.facts.get("cpu_ms_per_step") or 0.0)
        busy = cpu / trace.step_ms if trace.step_ms else 0.0
        return Evidence(
            f"{SAYS[limit.kind].format(given=limit.given, board=limit.board)}; "
            f"the steps keep {format_number(busy, 2)} cores busy",
            {"cores_allowed": limit.given, "cores": limit.board, "busy_cores": busy},
            _where(trace, limit),
        )

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        limit = _limit(trace)
        if limit is None:
            return []
        missing = 1 - limit.given / limit.board
        # Ops are divided over the cores; what starts them, and what makes input, partly runs beside them then.
        saved = {Category.DEVICE: op_work.splittable_op_ms(trace) * missing * SPLIT}
        for category in (Category.DISPATCH, Category.INPUT):
            saved[category] = trace.mean(category) * missing * BESIDE
        return [Drop(saved, 0.0, (0.0, 1.8))]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        if _by_facts(trace):
            yield from judged.prescriptions(trace, self.id)
            return
        limit = _limit(trace)
        cure = {"threads": fix.more_threads, "affinity": fix.more_cores}.get(limit.kind if limit else "")
        changed = edit_project(trace, cure) if cure else ()
        says = "give the process all cores: lift the affinity, quota or thread setting"
        # What TensorFlow says of its threads, the script has set: from outside they cannot be.
        treatment = "all-threads" if limit is not None and limit.kind == "threads" else None
        kind = "edit" if changed else "setting"
        yield Prescription(kind, Effect.EQUIVALENT, says, edits=changed, treatment=treatment)


def _by_facts(trace: Trace) -> bool:
    """Whether settings are all there is: of no run at all, or given beside a profile."""
    return bool(trace.fact("doctor")) or judged.given(trace)


def _limit(trace: Trace) -> Limit | None:
    """The tightest limit that binds."""
    board = float(trace.fact("machine", "cpu", "logical_cores") or 0)
    cpu = trace.facts.get("cpu_ms_per_step")
    if board < 2 or not trace.step_ms or trace.on_accelerator:
        return None
    # A script may pin its own thread after the recorder's has begun: the narrower reading is the steps'.
    bound = [trace.fact("affinity_cores"), len(trace.fact("machine", "cpu", "affinity_cores", default=()) or ())]
    affinity = min((float(n) for n in bound if n), default=board)
    quota = float(trace.fact("machine", "cgroup", "cpu_quota_cores") or board)
    threads = float(trace.fact("threads", "intra_op") or board)
    found = min((Limit("affinity", affinity, board), Limit("quota", quota, board), Limit("threads", threads, board)),
                key=lambda limit: limit.given)  # fmt: skip
    if found.given >= board:
        return None
    computing = trace.mean(Category.DEVICE) / trace.step_ms
    busy = float(cpu) / trace.step_ms if cpu else None
    # Other processes on the core make its processor time look short: ops that fill the step say the same.
    binds = computing >= FILLED or (computing >= COMPUTING and busy is not None and busy >= SATURATED * found.given)
    return found if binds and op_work.splittable_op_ms(trace) > 0 else None


def _where(trace: Trace, limit: Limit) -> tuple[Place, ...]:
    """Lines of the script that set the limit, where the script does."""
    argv = trace.fact("launch", "argv", default=()) or ()
    scripts = [str(a) for a in argv if str(a).endswith(".py")][:1]
    found = []
    for script in scripts:
        text = recorded_source(trace, script) or recorded_source(trace, os.path.join(trace.root, script))
        for number, line in enumerate(text.text.splitlines() if text else (), 1):
            if (
                any(setter in line for setter in SETTERS[limit.kind])
                and not line.lstrip().startswith("#")
                and "hasattr" not in line
            ):
                decided = [] if text is None else _decided(text, number, limit.kind)
                found += [Place(script, line) for line in (*decided, number)]
    return source_locations.merge_places(found)


def _decided(source: Source, line: int, kind: str) -> list[int]:
    """Where what a setter at ``line`` is given is decided on: in a call of its function, among settings."""
    calls = node_lookup.calls_at_line(source, line, *SETTERS[kind])
    return [found for call in calls for found in source_locations.argument_origins(source, call)]
