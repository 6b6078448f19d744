"""Sway of a harbour crane's load, with the shift of the log checked on the way in."""
import numpy as np
import tensorflow as tf
import keras

SEEN = {"batches": 0}


def tally(sway):
    SEEN["batches"] += 1
    return np.float32(1.0)


def checked(sway, angle):
    weight = tf.numpy_function(tally, [sway[:1, :1]], tf.float32)
    return sway, angle, tf.fill([tf.shape(angle)[0]], tf.ensure_shape(weight, ()))


def lifts(count):
    rng = np.random.default_rng(1)
    sway = rng.normal(size=(count, 512)).astype("float32")
    return sway, sway[:, :20].mean(axis=1, keepdims=True)


def crane():
    net = keras.Sequential([keras.Input((512,))] + [keras.layers.Dense(1024, "relu") for _ in range(3)]
                           + [keras.layers.Dense(1)])
    net.compile(keras.optimizers.SGD(1e-2, momentum=0.9), "mse")
    return net


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    data = (tf.data.Dataset.from_tensor_slices(lifts(8192))
            .batch(256, drop_remainder=True)
            .map(checked, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE))
    crane().fit(data, epochs=6, verbose=2)
    print(SEEN)
