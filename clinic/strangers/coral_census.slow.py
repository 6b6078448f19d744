from dataclasses import dataclass, field

import tensorflow as tf
import keras


@dataclass(frozen=True)
class Reader:
    batch: int = 16
    side: int = 64
    pool: int = 1
    ahead: int = 4

    def options(self):
        chosen = tf.data.Options()
        chosen.threading.private_threadpool_size = self.pool
        chosen.deterministic = True
        return chosen


@dataclass(frozen=True)
class Plan:
    reader: Reader = field(default_factory=Reader)
    quadrats: int = 7200
    rate: float = 2e-3


def quadrat(number, side):
    """A synthetic reef patch: smooth noise by filtering in the frequency domain."""
    key = tf.stack([number, tf.constant(9, tf.int64)])
    noise = tf.random.stateless_normal((6, side, side), key)
    spectrum = tf.signal.fft2d(tf.cast(noise, tf.complex64))
    axis = tf.cast(tf.minimum(tf.range(side), side - tf.range(side)), tf.float32)
    decay = tf.exp(-0.05 * (axis[:, None] ** 2 + axis[None, :] ** 2))
    smooth = tf.math.real(tf.signal.ifft2d(spectrum * tf.cast(decay, tf.complex64)))
    cover = tf.reduce_mean(tf.cast(smooth[0] > 0.05, tf.float32))
    return tf.transpose(smooth, (1, 2, 0)), cover


def survey(plan):
    reader = plan.reader
    return (tf.data.Dataset.range(plan.quadrats)
            .map(lambda n: quadrat(n, reader.side), num_parallel_calls=tf.data.AUTOTUNE)
            .batch(reader.batch)
            .prefetch(reader.ahead)
            .with_options(reader.options()))


def estimator(plan):
    patch = keras.Input((plan.reader.side, plan.reader.side, 6))
    x = keras.layers.AveragePooling2D(8)(patch)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    model = keras.Model(patch, keras.layers.Dense(1, activation="sigmoid")(x))
    model.compile(keras.optimizers.Adam(plan.rate), "binary_crossentropy")
    return model


if __name__ == "__main__":
    keras.utils.set_random_seed(9)
    plan = Plan()
    log = estimator(plan).fit(survey(plan), epochs=1, verbose=0)
    print("bce", log.history["loss"])
