"""Keras' ``Callback`` class as the base of `slowtrain.Monitor`, and a writer of figures for TensorBoard."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slowtrain.errors import EnvironmentMissing


def keras_callback_class() -> type:
    """Returns ``Callback`` of the imported Keras, else of an installed one. Raises ``EnvironmentMissing``."""
    for name in sorted(("keras", "tf_keras"), key=lambda n: n not in sys.modules):
        try:
            found: type = importlib.import_module(f"{name}.callbacks").Callback
        except (ImportError, AttributeError):
            continue
        return found
    raise EnvironmentMissing(
        "slowtrain.Monitor is a Keras callback and there is no Keras here; slowtrain.record() needs none"
    )


class TensorBoardScalars:
    """Writes figures for TensorBoard through ``tf.summary``. Raises ``EnvironmentMissing`` without TensorFlow."""

    def __init__(self, folder: Path) -> None:
        try:
            self.tensorflow: Any = importlib.import_module("tensorflow")
        except ImportError as error:
            raise EnvironmentMissing("figures for TensorBoard need TensorFlow, which is not here") from error
        with self.tensorflow.device("cpu:0"):
            self.writer = self.tensorflow.summary.create_file_writer(str(folder))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        # On the processor, so that nothing waits in the queue of an accelerator.
        with self.tensorflow.device("cpu:0"), self.writer.as_default(step):
            for name, value in figures.items():
                self.tensorflow.summary.scalar(f"slowtrain/{name}", value)

    def close(self) -> None:
        self.writer.close()
