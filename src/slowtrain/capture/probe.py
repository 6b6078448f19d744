"""A probe: the script, or a candidate for it, run until enough steady steps are known, and never to the user's harm.

The parent writes the plan as JSON and names it in ``SLOWTRAIN_PROBE``; the recorder is at work as in ``slowtrain run``.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

from slowtrain.capture import overlay
from slowtrain.capture.patching import on_import
from slowtrain.capture.recorder import Recorder, now
from slowtrain.capture.redirect import Redirect
from slowtrain.capture.state import Progress

VARIABLE = "SLOWTRAIN_PROBE"
COMMAND = "from slowtrain.capture import probe; probe.main()"
CHECK_S = 0.1

_plan: dict[str, Any] = {}


def begin(recorder: Recorder, progress: Progress) -> None:
    """In the probe's process, before the script: seeds, redirection, and the rule by which the probe ends."""
    file = os.environ.pop(VARIABLE, None)
    if file is None:
        return
    _plan.update(json.loads(Path(file).read_text(encoding="utf-8")))
    random.seed(_plan["seed"])
    on_import(recorder, "numpy", lambda numpy: numpy.random.seed(_plan["seed"]))
    on_import(recorder, "tensorflow", lambda tensorflow: tensorflow.random.set_seed(_plan["seed"]))
    on_import(recorder, "keras.src.utils.rng_utils", lambda rng: rng.set_random_seed(_plan["seed"]))
    Redirect(recorder, Path(_plan["scratch"])).install()
    overlay.install(_plan["overlay"])
    progress.trajectory, progress.wanted = [], True
    stop = Stop(recorder, progress, float(_plan["seconds"]), int(_plan["steps"]))
    recorder.every(CHECK_S, stop)
    recorder.at_exit.append(stop.note)


def texts() -> dict[str, str]:
    """The files of a candidate, by absolute path; empty in a run that is none."""
    found: dict[str, str] = _plan.get("overlay", {})
    return found


def main() -> None:
    """What the interpreter runs in place of the script: ``sys.argv`` is ``-c``, the script, its arguments."""
    overlay.run(sys.argv[1], sys.argv[2:], bool(_plan["module"]), _plan["overlay"])


class Stop:
    """Ends the process once it has taken ``steps`` steps and ``seconds`` since the first of them; 0 seconds: never."""

    def __init__(self, recorder: Recorder, progress: Progress, seconds: float, steps: int) -> None:
        self.recorder = recorder
        self.progress = progress
        self.seconds = seconds
        self.steps = steps
        self._first_ns = 0

    def __call__(self) -> None:
        if not self.progress.steps or not self.seconds:
            return
        self._first_ns = self._first_ns or now()
        if self.progress.steps >= self.steps and (now() - self._first_ns) / 1e9 >= self.seconds:
            self.recorder.fact("stopped_ns", now())
            self.note()
            self.recorder.halt()
            # Nothing of the script's own end may happen: it would write its results, and take its time.
            os._exit(0)

    def note(self) -> None:
        self.recorder.fact("losses", self.recorder.guard("losses", self._losses))

    def _losses(self) -> list[dict[str, float]]:
        kept = self.progress.trajectory or []
        strongest = max((kind for kind, _ in kept), default=0)
        return [
            {name: float(value._numpy_internal()) for name, value in scalars}
            for kind, scalars in kept
            if kind == strongest
        ]
