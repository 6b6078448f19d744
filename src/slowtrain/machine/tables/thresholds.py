"""Thresholds that this project chose itself, because no published rule exists, each with its reason."""

from __future__ import annotations

from slowtrain.shared.vocabulary import Source

MIN_HELD_CARD_SHARE = 0.05
"""Share of a GPU's memory. A process that holds less does not change which batch sizes fit."""

MIN_LINK_RATE_SHARE = 0.5
"""Share of the link's rate. A lower rate means that something else limits copies (a busy host, another NUMA node)."""

MIN_FREE_MEMORY_SHARE = 0.05
"""Share of the usable memory.

With less, the page cache is gone, and the next buffer is swapped or kills the process.
"""

MAX_THREADS_PER_CORE = 2.0
"""Threads per usable core. Up to this number a second hardware thread may serve the additional one."""

MIN_THROTTLED_SHARE = 0.1
"""Share of the periods in which the container ran, or of the cores: the smallest speed-up that is worth reporting."""

MIN_STORAGE_READ_SHARE = 0.9
"""Share of the bytes read that the kernel counted as fetched from storage. Below it a part came from the page cache."""

KERAS_WORKERS = Source(
    "keras-workers",
    "fit of Keras 3 raises under tf.distribute.MultiWorkerMirroredStrategy with more than one worker: it cannot "
    "make a tensor from the batches of several replicas; seen with Keras 3.15, TensorFlow 2.21 and two workers",
    "keras-team/keras, issue 20585 (open): https://github.com/keras-team/keras/issues/20585",
    "2026-11-27",
)
OWN_CHOICE = Source(
    "own-choice",
    f"Small means less than {MIN_HELD_CARD_SHARE:.0%} of a card's memory, {MIN_FREE_MEMORY_SHARE:.0%} of the host's "
    f"or {MIN_LINK_RATE_SHARE:.0%} of a link's rate; many means more than {MAX_THREADS_PER_CORE:g} threads per "
    f"core; often means {MIN_THROTTLED_SHARE:.0%} of a quota's periods or of the cores; a rate is the disk's if "
    f"{MIN_STORAGE_READ_SHARE:.0%} of the bytes came from storage",
    "Slowtrain's own choice: machine/tables/thresholds.py gives the reason for each",
    "2026-11-26",
)
