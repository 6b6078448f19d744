"""Where the line between little and much is drawn by this project and by nobody's rule: each with its reason."""

from __future__ import annotations

from slowtrain.model.sheet import Source

LITTLE_SHARE = 0.05
"""Of a card's memory: a process that holds less leaves room for every batch that would otherwise fit."""

ODD_SHARE = 0.5
"""Of what a link carries: with less, something beside the link holds copies up (a busy host, another memory node)."""

LEAST_FREE_SHARE = 0.05
"""Of the memory that may be used: with less left, the page cache is gone, and the next buffer swaps or kills."""

CROWDED = 2.0
"""Threads a usable core: up to there a second hardware thread may serve the other one."""

OFTEN = 0.1
"""Of the periods in which the container ran, or of the cores: the least speed-up that is ever worth a word."""

MOSTLY_CACHED = 0.9
"""Of the bytes read, that the kernel counted as fetched from storage: below, memory had some."""

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
