"""Estimate a day's energy balance from a food diary app's 5-minute activity log."""
import random
import time
from dataclasses import dataclass, field
from typing import List

import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class DiaryDay:
    person: int
    weight: float
    activity: List[float] = field(default_factory=list)
    balance: float = 0.0


def read_diaries(people=120, days=30, slots=288):
    rng = np.random.default_rng(99)
    diaries = []
    clock = np.linspace(0, 2 * np.pi, slots)
    for person in range(people):
        weight = float(rng.normal(75, 12))
        level = rng.uniform(0.5, 2.0)
        curve = level * (1 - np.cos(clock))
        noise = rng.gamma(2.0, 0.2, size=(days, slots))
        for d in range(days):
            act = curve * noise[d]
            diaries.append(DiaryDay(person, weight, act.tolist(),
                                    float(act.mean() - level * 0.4 + rng.normal(0, 0.02))))
    return diaries


class EnergyModel:
    def __init__(self, slots):
        self.net = keras.Sequential([
            layers.Input((slots,)),
            layers.Dense(64, activation="relu"),
            layers.Dense(32, activation="relu"),
            layers.Dense(1),
        ])
        self.opt = keras.optimizers.SGD(0.01, momentum=0.9)
        self.opt.build(self.net.trainable_variables)

    @tf.function
    def update(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.net(x, training=True)[:, 0] - y))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss


def train(diaries, steps, batch):
    picker = random.Random(5)
    model = EnergyModel(len(diaries[0].activity))
    average = 0.0
    began = time.monotonic()
    for step in range(1, steps + 1):
        chosen = [picker.randrange(len(diaries)) for _ in range(batch)]
        x = tf.convert_to_tensor([diaries[i].activity for i in chosen], tf.float32)
        y = tf.convert_to_tensor([diaries[i].balance for i in chosen], tf.float32)
        loss = model.update(x, y)
        if step % 250 == 0:
            average = float(loss)
            print(f"step {step:5d}  mse {average:.5f}")
    return time.monotonic() - began


if __name__ == "__main__":
    keras.utils.set_random_seed(99)
    STEPS, BATCH = 1400, 256
    seconds = train(read_diaries(), STEPS, BATCH)
    print("WORK", STEPS * BATCH)
    print("TRAIN_SECONDS %.3f" % seconds)
