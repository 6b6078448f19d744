"""Distribution strategies under which Keras 3 cannot train."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.navigation import call_index, name_bindings
from slowtrain.script.text.source_file import Source

STRATEGY_NAME = "MultiWorkerMirroredStrategy"
STRATEGY_TEXT = (
    "fit of Keras 3 (TensorFlow 2.16 and newer) fails under MultiWorkerMirroredStrategy with more than one worker "
    "(keras issue 20585)"
)
STRATEGY_ADVICE = (
    "keep Keras 2 (pip install tf_keras, TF_USE_LEGACY_KERAS=1), or run Keras on JAX with keras.distribution, or write "
    "the loop with strategy.run"
)
_STRATEGY_NAMES = frozenset(
    {f"tensorflow.distribute.{STRATEGY_NAME}", f"tensorflow.distribute.experimental.{STRATEGY_NAME}"}
)
# A file with one of these words may use Keras 2.
_LEGACY_KERAS_WORDS = ("tf_keras", "TF_USE_LEGACY_KERAS")
# Arguments that only ``fit`` of Keras models accepts.
_KERAS_FIT_ARGUMENTS = frozenset({"epochs", "steps_per_epoch", "validation_data", "batch_size", "callbacks", "verbose"})


def unsupported_strategies(source: Source) -> Iterator[ast.Call]:
    """Find such strategies in a file that trains with ``fit`` of Keras."""
    if STRATEGY_NAME not in source.text or any(word in source.text for word in _LEGACY_KERAS_WORDS):
        return
    if not any(
        keyword.arg in _KERAS_FIT_ARGUMENTS
        for fit in call_index.index_of(source).calls_of("fit")
        for keyword in fit.keywords
    ):
        return
    for call in call_index.index_of(source).calls_of(STRATEGY_NAME):
        if name_bindings.qualified_name(source, call.func) in _STRATEGY_NAMES:
            yield call
