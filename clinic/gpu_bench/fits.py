"""Trains a model of the memory table for three steps at a batch, on a card of which only a part is to be used.

SLOWTRAIN_CARD_MB=40960 python clinic/gpu_bench/fits.py MODEL BATCH        exit code 7: its memory was exhausted
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
LIMIT_MB = os.environ.get("SLOWTRAIN_CARD_MB")
EXHAUSTED = 7


def limit_card(megabytes: int) -> None:
    import tensorflow as tf

    for card in tf.config.list_physical_devices("GPU")[:1]:
        tf.config.set_logical_device_configuration(card, [tf.config.LogicalDeviceConfiguration(memory_limit=megabytes)])


def main() -> int:
    if LIMIT_MB:
        limit_card(int(LIMIT_MB))
    import memory_models

    try:
        memory_models.train(sys.argv[1], int(sys.argv[2]))
    except Exception as error:
        if "ResourceExhausted" not in type(error).__name__ and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        return EXHAUSTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
