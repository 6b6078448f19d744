"""Distil a keyword-spotting teacher into a small student; every batch is shifted in time at random."""
import os
os.environ.setdefault("KERAS_BACKEND", "jax")
import time

import keras
import numpy as np
from keras import layers, ops

SMALL = os.environ.get("SMALL") == "1"
CLIPS, FRAMES, MELS, WORDS = (256, 40, 16, 12) if SMALL else (8192, 98, 40, 35)
BATCH, STEPS = (16, 10) if SMALL else (128, 220)

rng = np.random.default_rng(9)
clips = rng.normal(size=(CLIPS, FRAMES, MELS)).astype("float32")


def net(width, depth):
    model = keras.Sequential([keras.Input((FRAMES, MELS))])
    for _ in range(depth):
        model.add(layers.Conv1D(width, 5, padding="same", activation="relu"))
    model.add(layers.GlobalAveragePooling1D())
    model.add(layers.Dense(WORDS))
    return model


teacher, student = net(256, 5), net(48, 2)


def soft_targets(y_true, y_pred):
    p = ops.softmax(y_true / 2.0)
    return -4.0 * ops.mean(ops.sum(p * ops.log_softmax(y_pred / 2.0), axis=-1))


student.compile(keras.optimizers.Adam(1e-3), loss=soft_targets)
ticks = []
for step in range(STEPS):
    pick = rng.integers(0, CLIPS, BATCH)
    batch = np.roll(clips[pick], int(rng.integers(-8, 9)), axis=1)
    wanted = teacher.predict(batch, verbose=0)
    loss = student.train_on_batch(batch, wanted)
    ticks.append(time.perf_counter())
print("distillation loss", float(loss))
print(f"steady_ms={np.median(np.diff(ticks)[STEPS // 2:]) * 1e3:.3f}")
