"""Ice content along permafrost cores; every so often the sampler is pointed at the badly fitted depths."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

DEPTHS = 60000
CHANNELS = 24
WINDOW = 4


def drill(seed=40):
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.normal(size=(DEPTHS, 1)) * 0.05, axis=0)
    logs = np.sin(walk * np.linspace(0.2, 3, CHANNELS)) + 0.2 * rng.normal(size=(DEPTHS, CHANNELS))
    ice = 1 / (1 + np.exp(-logs[:, :1] * 2 + logs[:, 5:6] * logs[:, 9:10]))
    return logs.astype("float32"), ice.astype("float32")


def depth_weights(errors):
    """Error of each depth smoothed over its neighbours, as sampling weights."""
    weights = np.zeros(len(errors))
    for d in range(len(errors)):
        around = errors[max(0, d - WINDOW):d + WINDOW + 1]
        weights[d] = np.mean(around) + 1e-4
    return weights / weights.sum()


def build():
    return keras.Sequential([
        layers.Input((CHANNELS,)),
        layers.Dense(256, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ])


def main():
    keras.utils.set_random_seed(40)
    logs, ice = drill()
    model = build()
    opt = keras.optimizers.Adam(1e-3)
    opt.build(model.trainable_variables)
    rng = np.random.default_rng(1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    @tf.function
    def residual(x, y):
        return tf.abs(model(x, training=False) - y)[:, 0]

    cumulative = np.arange(1, DEPTHS + 1) / DEPTHS
    steps, refresh, batch = 500, 50, 384
    began = time.perf_counter()
    for k in range(1, steps + 1):
        pick = np.minimum(np.searchsorted(cumulative, rng.random(batch)), DEPTHS - 1)
        loss = step(tf.constant(logs[pick]), tf.constant(ice[pick]))
        if k % refresh == 0:
            cumulative = np.cumsum(depth_weights(residual(logs, ice).numpy()))
        if k % 250 == 0:
            print(k, "loss", round(float(loss), 5))
    spent = time.perf_counter() - began
    print("WORK", steps)
    print("TRAIN_SECONDS", round(spent, 3))


if __name__ == "__main__":
    main()
