import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
from dataclasses import dataclass, field
import numpy as np
import tensorflow as tf
import keras
from keras import layers


@dataclass
class Options:
    length: int = 200
    batch: int = 64
    steps: int = 320
    check_every: int = 10
    best: float = 0.0
    curve: list = field(default_factory=list)


def light_curves(n, length, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    flux = 0.3 * rng.normal(size=(n, length)) + 0.4 * np.sin(t / rng.uniform(8, 40, (n, 1)))
    y = rng.integers(0, 2, n)
    start = rng.integers(10, length - 40, n)
    width = rng.integers(8, 25, n)
    inside = (t >= start[:, None]) & (t < (start + width)[:, None])
    flux -= inside * y[:, None] * 0.7
    return flux[..., None].astype("float32"), y.astype("float32")


def network(length):
    return keras.Sequential([
        keras.Input((length, 1)),
        layers.Conv1D(16, 7, strides=2, activation="relu"), layers.Conv1D(32, 5, strides=2, activation="relu"),
        layers.Conv1D(32, 5, activation="relu"), layers.GlobalMaxPooling1D(),
        layers.Dense(32, activation="relu"), layers.Dense(1),
    ])


def main():
    o = Options()
    x, y = light_curves(12000, o.length, 0)
    xv, yv = light_curves(4000, o.length, 1)
    train = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(12000).batch(o.batch).prefetch(2))
    valid = tf.data.Dataset.from_tensor_slices((xv, yv)).batch(256).cache().prefetch(2)
    model = network(o.length)
    opt = keras.optimizers.Adam(2e-3)
    opt.build(model.trainable_variables)
    bce = keras.losses.BinaryCrossentropy(from_logits=True)
    acc = keras.metrics.BinaryAccuracy(threshold=0.0)

    @tf.function
    def train_step(bx, by):
        with tf.GradientTape() as tape:
            loss = bce(by[:, None], model(bx, training=True))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    @tf.function
    def valid_step(bx, by):
        acc.update_state(by[:, None], model(bx, training=False))

    def validate():
        acc.reset_state()
        for bx, by in valid:
            valid_step(bx, by)
        return float(acc.result())

    t0 = time.perf_counter()
    for step in range(1, o.steps + 1):
        loss = train_step(*next(train))
        if step % o.check_every == 0:
            score = validate()
            o.curve.append(score)
            if score > o.best:
                o.best, keep = score, [v.numpy() for v in model.trainable_variables]
    print("best accuracy %.4f, last loss %.4f, %d checks" % (o.best, float(loss), len(o.curve)))
    print("WORK", o.steps * o.batch)
    print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))


main()
