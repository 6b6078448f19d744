"""Patches of TensorFlow that time tensors read back to the host, and tensors created from the host's values."""

from __future__ import annotations

import itertools
import os
import sys
from _thread import get_ident
from collections.abc import Callable
from types import FrameType
from typing import Any

from slowtrain.capture.core.fast_path import fast_path_maker
from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder, now
from slowtrain.capture.core.thread_state import CONSTANTS_FILE, ReadbackSite, ThreadState
from slowtrain.capture.inspection import call_signatures
from slowtrain.capture.inspection.user_code import is_user_code

DATA_FOLDER = os.path.join("tensorflow", "python", "data", "")
READBACK_PLACES = 4  # places where a step reads values back, usually at most


def readback_timer(
    recorder: Recorder, state: ThreadState, called: Callable[[FrameType], str], reads: tuple[ReadbackSite, ...]
) -> Callable[[Wrapper], Wrapper]:
    """Returns a wrapper maker for a getter of array values. It times calls in the main thread.

    ``called`` names the call from its caller's frame. ``reads`` store the last places of reads: a step reads at a few
    places, which are the same as in the step before.
    """
    main, emit, oldest = state.main, recorder.emit, itertools.cycle(reads)

    def make(original: Wrapper) -> Wrapper:
        def _numpy(self: Any) -> Any:
            if get_ident() != main.ident or main.busy:
                return original(self)
            start = now()
            try:
                return original(self)
            finally:
                end, frame, in_loops = now(), sys._getframe(1), bool(main.loops)
                main.left -= 1
                if not main.left:
                    main.look(recorder.active)
                for read in reads:
                    if read.is_same_place(frame, in_loops):
                        break
                else:
                    read = recorder.guard("readback", name_place, frame, in_loops)
                if read is not None:
                    emit((read.name, start, end, main.ident, 0))

        return _numpy

    def name_place(frame: FrameType, in_loops: bool) -> ReadbackSite | None:
        """Handles a read at a new place. Returns None if TensorFlow reads for itself."""
        if _is_internal_readback(frame):
            return None
        read = next(oldest)
        # Reads by Keras itself belong to no line.
        read.name = recorder.name_at(None if in_loops else frame, "readback", called(frame), "readback")
        read.remember(frame, in_loops)
        return read

    return make


def _is_internal_readback(frame: FrameType | None) -> bool:
    """Returns whether TensorFlow reads a constant: a gradient function an axis or shape, a data set its size."""
    constant = False
    for _ in range(3):  # directly, through numpy(), or through constant_value()
        if frame is None:
            return False
        name = frame.f_code.co_filename
        if (name.endswith("_grad.py") or (constant and DATA_FOLDER in name)) and not is_user_code(frame.f_code):
            return True
        constant = name.endswith(CONSTANTS_FILE)
        frame = frame.f_back
    return False


class TensorPatches:
    """Installs itself through import hooks. Records only calls in the main thread."""

    def __init__(self, recorder: Recorder, state: ThreadState) -> None:
        self.recorder = recorder
        self.state = state

    def install(self) -> None:
        patch_on_import(self.recorder, "tensorflow.python.framework.ops", self._patch_readback)
        patch_on_import(self.recorder, "tensorflow", self._patch_feed)

    def _patch_readback(self, module: Any) -> None:
        # Its caller is the method that was called: numpy(), __float__() and others.
        reads = tuple(ReadbackSite() for _ in range(READBACK_PLACES))
        make = readback_timer(self.recorder, self.state, lambda frame: frame.f_code.co_name, reads)
        quick = fast_path_maker("readback", self.recorder, self.state.main, names=reads)
        replace_function(module._EagerTensorBase, "_numpy", make, quick)

    def _patch_feed(self, module: Any) -> None:
        recorder, main = self.recorder, self.state.main
        tensor = module.Tensor

        def make(original: Wrapper) -> Wrapper:
            def convert(*args: Any, **kwargs: Any) -> Any:
                if get_ident() != main.ident or main.busy or main.loops or not args or isinstance(args[0], tensor):
                    return original(*args, **kwargs)
                if not recorder.active:
                    return original(*args, **kwargs)
                start = now()
                try:
                    return original(*args, **kwargs)
                finally:
                    recorder.guard("feed", record_feed, original.__name__, args[:1], start, now(), sys._getframe(1))

            return convert

        def record_feed(text: str, values: tuple[Any, ...], start: int, end: int, frame: FrameType) -> None:
            name = recorder.name_at(frame, "feed", text, "feed")
            recorder.span(name, start, end, call_signatures.host_bytes(values))

        for name in ("convert_to_tensor", "constant"):
            replace_function(module, name, make)
