import contextlib
import gc

import numpy as np
import tensorflow as tf
import keras


class Tremor:
    def __init__(self, index, size):
        self.index = index
        self.size = size
        self.tags = {"index": index}
        self.picks = [index, size]


@contextlib.contextmanager
def lean_memory():
    try:
        yield
    finally:
        gc.collect()


def catalogue(count):
    rng = np.random.default_rng(90)
    return [Tremor(i, float(s)) for i, s in enumerate(rng.exponential(1.0, count))]


def windows(events, length=32):
    sizes = np.array([event.size for event in events], dtype="float32")
    frames = np.lib.stride_tricks.sliding_window_view(sizes, length + 1)[::8]
    return np.ascontiguousarray(frames[:, :-1]), np.ascontiguousarray(frames[:, -1:])


def alarm():
    return keras.Sequential([keras.Input((32,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])


def main():
    keras.utils.set_random_seed(90)
    events = catalogue(220_000)
    frames = tf.data.Dataset.from_tensor_slices(windows(events)).batch(256, drop_remainder=True)
    model = alarm()
    optimizer = keras.optimizers.Adagrad(0.05)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(model(x, training=True) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables))
        return loss

    strongest = max(events, key=lambda e: e.size)
    for x, y in frames.cache().prefetch(2).take(40):
        with lean_memory():
            loss = step(x, y)
    print("loss", float(loss), "strongest", strongest.index)


if __name__ == "__main__":
    main()
