"""Keras' own ``Callback`` for `slowtrain.Monitor` to be one, and TensorBoard's writer for its figures."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import EnvironmentMissing


def base() -> type:
    """``Callback`` of the Keras that is imported, else of the one that is installed. Raises ``EnvironmentMissing``."""
    for name in sorted(("keras", "tf_keras"), key=lambda n: n not in sys.modules):
        try:
            found: type = importlib.import_module(f"{name}.callbacks").Callback
        except (ImportError, AttributeError):
            continue
        return found
    raise EnvironmentMissing(
        "slowtrain.Monitor is a Keras callback and there is no Keras here; slowtrain.record() needs none"
    )


class Scalars:
    """Writes figures for TensorBoard through ``tf.summary``. Raises ``EnvironmentMissing`` without TensorFlow."""

    def __init__(self, folder: Path) -> None:
        try:
            self.tensorflow: Any = importlib.import_module("tensorflow")
        except ImportError as error:
            raise EnvironmentMissing("figures for TensorBoard need TensorFlow, which is not here") from error
        with self.tensorflow.device("cpu:0"):
            self.writer = self.tensorflow.summary.create_file_writer(str(folder))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        # On the processor: nothing of this may wait in an accelerator's queue.
        with self.tensorflow.device("cpu:0"), self.writer.as_default(step):
            for name, value in figures.items():
                self.tensorflow.summary.scalar(f"slowtrain/{name}", value)

    def close(self) -> None:
        self.writer.close()
