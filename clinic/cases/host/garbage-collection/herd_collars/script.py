"""Behaviour of cattle from collar accelerometers."""
import gc
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(61)


class Reading:
    __slots__ = ("animal", "when", "xyz", "label")

    def __init__(self, animal, when, xyz, label):
        self.animal = animal
        self.when = when
        self.xyz = xyz
        self.label = label


def field_log(animals=60, per_animal=60, seed=1):
    rng = np.random.default_rng(seed)
    log = []
    for a in range(animals):
        for k in range(per_animal):
            label = int(rng.integers(0, 4))
            xyz = rng.normal(label * 0.4, 1.0, (32, 3)).astype("float32")
            log.append(Reading({"tag": a, "farm": a % 5}, (k, a), xyz, label))
    return log


class KeepMemoryLow(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        gc.collect()


def classifier():
    return tf.keras.Sequential([
        tf.keras.Input((32, 3)),
        tf.keras.layers.Conv1D(32, 5, activation="relu"),
        tf.keras.layers.Conv1D(32, 5, activation="relu"),
        tf.keras.layers.GlobalAveragePooling1D(),
        tf.keras.layers.Dense(4),
    ])


def main():
    log = field_log()
    x = np.stack([r.xyz for r in log])
    y = np.array([r.label for r in log])
    model = classifier()
    model.compile(
        optimizer="rmsprop",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    t0 = time.perf_counter()
    model.fit(x, y, batch_size=120, epochs=2, verbose=2, callbacks=[KeepMemoryLow()])
    print("fit", time.perf_counter() - t0)


if __name__ == "__main__":
    main()
