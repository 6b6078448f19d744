"""Lint rule about distribution strategies under which Keras 3 cannot train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, name_bindings
from slowtrain.script.text.source_file import Source

NAME = "MultiWorkerMirroredStrategy"
SAYS = (
    "fit of Keras 3 (TensorFlow 2.16 and newer) fails under MultiWorkerMirroredStrategy with more than one worker "
    "(keras issue 20585)"
)
CURE = (
    "keep Keras 2 (pip install tf_keras, TF_USE_LEGACY_KERAS=1), or run Keras on JAX with keras.distribution, or write "
    "the loop with strategy.run"
)
_QUALIFIED = frozenset({f"tensorflow.distribute.{NAME}", f"tensorflow.distribute.experimental.{NAME}"})
# A file with one of these words may use Keras 2.
_LEGACY = ("tf_keras", "TF_USE_LEGACY_KERAS")
# Arguments that only ``fit`` of Keras models accepts.
_OF_KERAS = frozenset({"epochs", "steps_per_epoch", "validation_data", "batch_size", "callbacks", "verbose"})


def failing(source: Source) -> Iterator[ast.Call]:
    """Find such strategies in a file that trains with ``fit`` of Keras."""
    if NAME not in source.text or any(word in source.text for word in _LEGACY):
        return
    if not any(
        keyword.arg in _OF_KERAS for fit in call_index.index_of(source).called("fit") for keyword in fit.keywords
    ):
        return
    for call in call_index.index_of(source).called(NAME):
        if name_bindings.qualified_name(source, call.func) in _QUALIFIED:
            yield call
