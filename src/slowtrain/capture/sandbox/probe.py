"""A probe: runs the script, or a candidate for it, until enough steady steps are known, without changing the user's
files.

The parent writes the plan as JSON and names it in ``SLOWTRAIN_PROBE``. The recorder works as in ``slowtrain run``.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wrapt

from slowtrain.capture.core.patching import patch_on_import
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import EAGER_STEP, TRAINING_STEP, Progress, StepResult, scalar_value
from slowtrain.capture.sandbox import model_changes, seed_shift, source_overlay, tensorflow_redirection, treatments
from slowtrain.capture.sandbox.batch_size import BatchSizeChange
from slowtrain.capture.sandbox.file_redirection import FileRedirection, replace_for_good
from slowtrain.capture.sandbox.inference_forms import InferenceForms
from slowtrain.capture.sandbox.scratch_folder import ScratchFolder
from slowtrain.capture.sandbox.weight_digests import WeightDigests
from slowtrain.capture.windows.allocation_requests import AllocationRequests
from slowtrain.recording.recording_folder import SCRATCH_FOLDER

PLAN_VARIABLE = "SLOWTRAIN_PROBE"
COMMAND = "from slowtrain.capture.sandbox import probe; probe.main()"
# Prepended to the command of each new process that multiprocessing starts.
CHILD = "from slowtrain.capture.sandbox import probe; probe.child({file!r}); "
STOP_CHECK_S = 0.1
MAX_NAMED_FILES = 100

_current_plan: dict[str, Any] = {}


def begin_probe(recorder: Recorder, progress: Progress) -> None:
    """Sets seeds, redirection and the rule that ends the probe. Runs in the probe's process, before the script."""
    file = os.environ.pop(PLAN_VARIABLE, None)
    if file is None:
        return
    plan = json.loads(Path(file).read_text(encoding="utf-8"))
    random.seed(plan["seed"])
    patch_on_import(recorder, "numpy", lambda numpy: numpy.random.seed(plan["seed"]))
    patch_on_import(recorder, "tensorflow", lambda tensorflow: tensorflow.random.set_seed(plan["seed"]))
    patch_on_import(recorder, "keras", lambda keras: keras.utils.set_random_seed(plan["seed"]))
    unpatched: list[str] = []
    scratch = _install_sandbox(plan, file, unpatched)
    progress.trajectory, progress.wanted = [], True
    stop = ProbeEnd(recorder, progress, float(plan["seconds"]), int(plan["steps"]))
    stop.notes.append(lambda: recorder.fact("redirected", sorted(scratch.moved)[:MAX_NAMED_FILES]))
    stop.notes.append(lambda: recorder.fact("not_redirected", list(unpatched)))
    weights = WeightDigests(recorder, progress)
    stop.notes.append(lambda: recorder.fact("weights", weights.marks))
    if progress.boundary is None:  # no profiler windows in this probe
        progress.boundary = weights.at_boundary
    recorder.every(STOP_CHECK_S, stop)
    recorder.at_exit.append(stop.note)
    treatments.install_treatments(recorder, plan["cures"])
    if "rebatch" in plan:
        BatchSizeChange(recorder, *plan["rebatch"]).install()
    if "model" in plan:
        stop.notes.append(model_changes.install_model_changes(recorder, plan["model"]).note)
    if "inference" in plan:
        InferenceForms(recorder, progress, exit_at_once).install()
    if "results" in plan:
        progress.max_results = int(plan["results"])
    if "other_seeds" in plan:
        seed_shift.shift_seeds(recorder, int(plan["other_seeds"]))
    if "requests" in plan:
        AllocationRequests(recorder, progress, int(plan["requests"]), exit_at_once).install()
    _current_plan.update(plan)  # last: without it nothing is run


def child(file: str) -> None:
    """Prepares a process that the probe started: same texts, same scratch folder; nothing is recorded."""
    _install_sandbox(json.loads(Path(file).read_text(encoding="utf-8")), file, [])


def _install_sandbox(plan: dict[str, Any], file: str, unpatched: list[str]) -> ScratchFolder:
    folder = Path(file).parent
    own = (folder, *(Path(one) for one in plan.get("packing", {}).get("folders", ())))
    scratch = ScratchFolder(folder / SCRATCH_FOLDER, own, plan["temporary"])
    redirect = FileRedirection(scratch)
    redirect.install()
    tensorflow_redirection.install_tensorflow_redirection(redirect, unpatched.append)
    source_overlay.install_overlay(plan["overlay"])
    wrapt.register_post_import_hook(
        lambda util: replace_for_good(util, "spawnv_passfds", _spawn_in_sandbox(file)), "multiprocessing.util"
    )
    return scratch


def _spawn_in_sandbox(file: str) -> Any:
    """Makes processes of ``multiprocessing`` that are not forked begin as this one did."""

    def make(original: Any) -> Any:
        def spawnv_passfds(path: Any, args: Any, passfds: Any) -> Any:
            args = list(args)
            for at, one in enumerate(args[:-1]):
                text = os.fsdecode(args[at + 1])
                if os.fsdecode(one) == "-c" and text.startswith(
                    ("from multiprocessing.spawn", "from multiprocessing.forkserver")
                ):
                    args[at + 1] = CHILD.format(file=file) + text
            return original(path, args, passfds)

        return spawnv_passfds

    return make


def candidate_texts() -> dict[str, str]:
    """Returns the files of a candidate, by absolute path; empty if this run is not a candidate."""
    found: dict[str, str] = _current_plan.get("overlay", {})
    return found


def packing_values() -> dict[str, Any] | None:
    """Returns what this run packs, as JSON values; None if it packs nothing."""
    found: dict[str, Any] | None = _current_plan.get("packing")
    return found


def main() -> None:
    """Runs in place of the script. ``sys.argv`` is ``-c``, the script, its arguments."""
    if not _current_plan:
        raise RuntimeError("the probe could not be kept apart from your files, so nothing was run")
    source_overlay.run_as_main(sys.argv[1], sys.argv[2:], bool(_current_plan["module"]), _current_plan["overlay"])


def exit_at_once() -> None:
    """Ends the process at once, because the script's own end would write its results and take time."""
    os._exit(0)


class ProbeEnd:
    """Ends the process after ``steps`` steps and ``seconds`` since the first of them; 0 seconds: never."""

    def __init__(self, recorder: Recorder, progress: Progress, seconds: float, steps: int) -> None:
        self.recorder = recorder
        self.progress = progress
        self.seconds = seconds
        self.steps = steps
        self.notes: list[Callable[[], None]] = []
        self._first_ns = 0
        self._parent = os.getppid()

    def __call__(self) -> None:
        if os.getppid() != self._parent:
            os._exit(1)  # the parent is gone
        if not self.progress.steps or not self.seconds:
            return
        self._first_ns = self._first_ns or now()
        # The last step that is counted has only begun.
        if self.progress.steps > self.steps and (now() - self._first_ns) / 1e9 >= self.seconds:
            self.recorder.fact("stopped_ns", now())
            self.note()
            self.recorder.halt()
            exit_at_once()

    def note(self) -> None:
        self.recorder.fact("losses", self.recorder.guard("losses", self._losses))
        self.recorder.fact("losses_from", self.recorder.guard("losses", self._origins))
        self.recorder.fact("losses_over", [span for *_, span in self._strongest_results()])
        for note in self.notes:
            self.recorder.guard("notes", note)

    def _strongest_results(self) -> list[StepResult]:
        """Returns the results of the strongest kind of step, and for a custom loop also its eager gradients."""
        results = self.progress.trajectory or []
        strongest = max((kind for kind, *_ in results), default=0)
        return [one for one in results if one[0] == strongest or EAGER_STEP <= one[0] < strongest <= TRAINING_STEP]

    def _losses(self) -> list[dict[str, float]]:
        return [
            {name: number for name, value in scalars if (number := scalar_value(value, wait=True)) is not None}
            for _, _, scalars, _ in self._strongest_results()
        ]

    def _origins(self) -> list[tuple[str, int, bool]]:
        """Returns for each result its origin, and whether it counts as a step; empty for steps of Keras."""
        results = self._strongest_results()
        strongest = max((kind for kind, *_ in results), default=0)
        found = [(*origin, kind == strongest) for kind, origin, *_ in results if origin is not None]
        return found if len(found) == len(results) else []
