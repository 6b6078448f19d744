"""A diagnosed run of the present script, and the time that measuring it takes."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.diagnose import Findings
from slowtrain.model import Checkup
from slowtrain.trace import Trace
from slowtrain.verify.measurement.probe_process import MAX_TRAINING_S, Probe, Rule

MIN_PAIRS = 3  # pairs for which there must be time


@dataclass(frozen=True)
class DiagnosedProbe:
    """A diagnosed run of the script in its present state."""

    probe: Probe
    trace: Trace
    findings: Findings
    checkup: Checkup

    @property
    def comes_to_the_second_pass(self) -> bool:
        """Whether a probe reaches the second pass over the data, which is the first that a cache serves."""
        steps = self.trace.steps
        if not self.probe.stopped or not len(steps):
            return True
        begun = steps.start_ms[steps.block > steps.block[0]]
        return bool(len(begun)) and float(begun[0] - steps.start_ms[0]) < 1e3 * MAX_TRAINING_S


def minimum_trial_s(seen: DiagnosedProbe, rule: Rule, scope: str, pairs: int = MIN_PAIRS) -> float:
    """The time in s for that many pairs; by default for the smallest number that can decide."""
    whole = seen.probe.wall_s
    start = seen.probe.first_step_s or whole
    return 2 * pairs * (whole if scope == "run" or not rule.seconds else min(start + rule.seconds, whole))
