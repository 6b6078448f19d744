"""Other seeds for a script that sets its own, without editing it: adds a number to each seed that it gives a framework.

The function in the framework's own module is replaced before any other module imports it. Seeds of NumPy and Python
stay unchanged unless Keras sets them, so that most scripts draw the same data again.
"""

from __future__ import annotations

from typing import Any

from slowtrain.capture.core.patching import Wrapper, patch_on_import, replace_function
from slowtrain.capture.core.recorder import Recorder

# By module, the functions whose first argument is a seed.
SEED_FUNCTIONS = {
    "keras.src.utils.rng_utils": ("set_random_seed",),
    "keras.src.utils.tf_utils": ("set_random_seed",),  # Keras 2
    "tf_keras.src.utils.tf_utils": ("set_random_seed",),
    "tensorflow.python.framework.random_seed": ("set_seed",),
    "jax._src.random": ("PRNGKey", "key"),
}


def shift_seeds(recorder: Recorder, number: int) -> None:
    """Adds ``number`` to the seeds. Seeds that are no integers stay unchanged."""

    def shift_first_argument(original: Wrapper) -> Wrapper:
        def set_seed(seed: Any, *args: Any, **kwargs: Any) -> Any:
            is_number = isinstance(seed, int) and not isinstance(seed, bool)
            return original(seed + number if is_number else seed, *args, **kwargs)

        return set_seed

    def patch(module: Any) -> None:
        for name in SEED_FUNCTIONS[module.__name__]:
            if hasattr(module, name):
                replace_function(module, name, shift_first_argument)

    for module in SEED_FUNCTIONS:
        patch_on_import(recorder, module, patch)
