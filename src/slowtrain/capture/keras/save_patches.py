"""Patches the functions that write models and checkpoints, and records when and at which line of the script's.

Each call is one span on the lane ``save``. A call inside another, such as a checkpoint's in a manager's, lies within
its span.
"""

from __future__ import annotations

import sys
from functools import partial
from types import FrameType
from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now

# Module -> the class in it, if it is a method, and the names. Callbacks and ``Model.save`` call these. They are the
# same in TensorFlow 2.15 and 2.21.
SAVE_FUNCTIONS = {
    "keras.src.saving.saving_api": ("", ("save_model", "save_weights")),
    "tf_keras.src.saving.saving_api": ("", ("save_model", "save_weights")),
    "tensorflow.python.checkpoint.checkpoint": ("Checkpoint", ("save", "write")),
    "tensorflow.python.checkpoint.checkpoint_management": ("CheckpointManager", ("save",)),
    "tensorflow.python.saved_model.save": ("", ("save",)),
}


class SavePatches:
    """Installs itself through import hooks."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def install(self) -> None:
        for module, (kind, names) in SAVE_FUNCTIONS.items():
            patch_on_import(self.recorder, module, partial(self._patch, kind, names))

    def _patch(self, kind: str, names: tuple[str, ...], module: Any) -> None:
        owner = getattr(module, kind) if kind else module
        for name in names:
            replace_function(owner, name, partial(self._timed, f"{kind}.{name}" if kind else name))

    def _timed(self, what: str, original: Wrapper) -> Wrapper:
        recorder, key = self.recorder, f"save {what}"

        def save(*args: Any, **kwargs: Any) -> Any:
            if not recorder.active:
                return original(*args, **kwargs)
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                recorder.guard("saving", record_save, start, now(), sys._getframe(1))

        def record_save(start: int, end: int, frame: FrameType) -> None:
            recorder.span(recorder.name_at(frame, "save", what, key), start, end)

        return save
