"""The loss that a training step of Keras reports, and whether it is that of one batch or a mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowtrain.capture.core.thread_state import Progress


def loss_keeper(progress: Progress, kind: int, model: Any) -> Callable[[Any, bool], None]:
    """Returns what keeps the result of a step of ``model``, given whether a loop of Keras calls the step.

    ``train_step`` of Keras itself returns means since the epoch began. Outside a loop nobody says when it resets them.
    """
    source = f"{type(model).__name__} {id(model)}"
    own = getattr(type(model), "train_step", None)
    averages = str(getattr(own, "__module__", "")).startswith(("keras.", "tf_keras."))

    def keep_loss(result: Any, in_loop: bool) -> None:
        progress.keep(result, kind, source=source, averaged=True if averages and in_loop else None)

    return keep_loss
