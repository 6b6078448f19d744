"""Rolling retraining of a spot-rate model for road freight quotes.

Every week the quotes of the last weeks are used to refresh the model, then the coming week is scored.
"""
import time
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Plan:
    weeks: int = 7
    window: int = 4
    quotes_per_week: int = 2880
    batch: int = 256
    features: int = 40
    width: int = 192
    blocks: int = 6


def market(plan, seed=11):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(plan.features,)).astype(np.float32)
    weeks = []
    for week in range(plan.weeks + plan.window + 1):
        x = rng.normal(size=(plan.quotes_per_week, plan.features)).astype(np.float32)
        drifted = weights + 0.02 * week
        y = np.sin(x @ drifted / 4) + 0.1 * rng.normal(size=len(x))
        weeks.append((x, y.astype(np.float32)[:, None]))
    return weeks


def build(plan):
    lane = keras.Input((plan.features,))
    h = layers.Dense(plan.width)(lane)
    for _ in range(plan.blocks):
        r = layers.Dense(plan.width, activation="gelu")(h)
        r = layers.Dense(plan.width)(r)
        h = layers.Add()([h, r])
    return keras.Model(lane, layers.Dense(1)(layers.LayerNormalization()(h)))


def refresh(model, optimizer, quotes, plan):
    """One pass over the window of recent quotes."""

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.abs(model(x, training=True) - y))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    total, count = 0.0, 0
    for x, y in quotes:
        total += step(x, y)
        count += 1
    return float(total) / count, count


def window_dataset(weeks, start, plan):
    x = np.concatenate([w[0] for w in weeks[start:start + plan.window]])
    y = np.concatenate([w[1] for w in weeks[start:start + plan.window]])
    order = np.random.default_rng(start).permutation(len(x))
    data = tf.data.Dataset.from_tensor_slices((x[order], y[order]))
    return data.batch(plan.batch, drop_remainder=True).prefetch(2)


def main():
    plan = Plan()
    keras.utils.set_random_seed(11)
    weeks = market(plan)
    model = build(plan)
    optimizer = keras.optimizers.Adam(5e-4)
    optimizer.build(model.trainable_variables)

    steps = 0
    began = time.perf_counter()
    for week in range(plan.weeks):
        optimizer.learning_rate.assign(5e-4 * 0.95 ** week)
        loss, count = refresh(model, optimizer, window_dataset(weeks, week, plan), plan)
        steps += count
        x, y = weeks[week + plan.window]
        ahead = np.mean(np.abs(model(x[:512]).numpy() - y[:512]))
        print(f"week {week:2d}  window {loss:.4f}  ahead {ahead:.4f}")
    seconds = time.perf_counter() - began
    print("WORK", steps * plan.batch)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
