"""Grade orchids from 96 measured traits. Small net, early stopping, many reports for the breeders."""
import argparse
import time

import numpy as np
import tensorflow as tf
from tensorflow.keras import callbacks, layers, models


def options():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--plants", type=int, default=24_000)
    p.add_argument("--held-back", type=float, default=0.2)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--seasons", type=int, default=3, help="passes over the plants")
    p.add_argument("--reports", type=int, default=40, help="reports per season")
    return p.parse_args()


class Nursery:
    def __init__(self, plants, held_back):
        g = np.random.default_rng(55)
        x = g.normal(size=(plants, 96)).astype(np.float32)
        y = (x[:, :8].sum(1) // 2 % 5).astype(np.int32)
        cut = int(plants * (1 - held_back))
        self.grown, self.judged = (x[:cut], y[:cut]), (x[cut:], y[cut:])

    def beds(self, which, batch):
        return tf.data.Dataset.from_tensor_slices(which).batch(batch, drop_remainder=True)


def grader():
    m = models.Sequential([
        layers.Input((96,)), layers.Dense(128, activation="relu"), layers.Dropout(0.2),
        layers.Dense(64, activation="relu"), layers.Dense(5)])
    m.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return m


def season_plan(n, o):
    """(length of one report period in batches, number of periods)"""
    whole = n // o.batch
    period = max(1, whole // o.reports)
    return period, o.seasons * (whole // period)


def main():
    o = options()
    nursery = Nursery(o.plants, o.held_back)
    train = nursery.beds(nursery.grown, o.batch).cache().repeat().prefetch(4)
    judge = nursery.beds(nursery.judged, o.batch).cache().prefetch(4)
    m = grader()
    m.fit(train, steps_per_epoch=4, validation_data=judge, verbose=0)
    period, periods = season_plan(len(nursery.grown[0]), o)
    stop = callbacks.EarlyStopping(monitor="val_loss", patience=1000, restore_best_weights=False)
    t = time.time()
    m.fit(train, steps_per_epoch=period, epochs=periods, validation_data=judge, verbose=0, callbacks=[stop])
    t = time.time() - t
    print("WORK", period * periods * o.batch)
    print("TRAIN_SECONDS", round(t, 3))


if __name__ == "__main__":
    main()
