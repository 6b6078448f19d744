"""Thresholds that this project chose itself, because no published rule exists, each with its reason."""

from __future__ import annotations

from slowtrain.model.sheet import Source

LITTLE_SHARE = 0.05
"""Share of a GPU's memory. A process that holds less does not change which batch sizes fit."""

ODD_SHARE = 0.5
"""Share of the link's rate. A lower rate means that something else limits copies (a busy host, another NUMA node)."""

LEAST_FREE_SHARE = 0.05
"""Share of the usable memory.

With less, the page cache is gone, and the next buffer is swapped or kills the process.
"""

CROWDED = 2.0
"""Threads per usable core. Up to this number a second hardware thread may serve the additional one."""

OFTEN = 0.1
"""Share of the periods in which the container ran, or of the cores: the smallest speed-up that is worth reporting."""

MOSTLY_CACHED = 0.9
"""Share of the bytes read that the kernel counted as fetched from storage. Below it a part came from the page cache."""

KERAS_WORKERS = Source(
    "keras-workers",
    "fit of Keras 3 raises under tf.distribute.MultiWorkerMirroredStrategy with more than one worker: it cannot make a "
    "tensor of the batches of several replicas; seen of Keras 3.15 with TensorFlow 2.21 and two workers",
    "keras-team/keras, issue 20585 (open): https://github.com/keras-team/keras/issues/20585",
    "2026-11-27",
)
OWN = Source(
    "own-choice",
    f"Little is less than {LITTLE_SHARE:.0%} of a card's memory, {LEAST_FREE_SHARE:.0%} of the host's, {ODD_SHARE:.0%} "
    f"of what a link carries; many are more than {CROWDED:g} threads a core; often: {OFTEN:.0%} of a quota's periods, "
    f"or of the cores; a rate is a disk's where {MOSTLY_CACHED:.0%} of what was read came from storage",
    "Slowtrain's own choice and nobody's rule: machine/choices.py has each with its reason",
    "2026-11-26",
)
