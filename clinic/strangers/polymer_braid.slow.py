import numpy as np
import tensorflow as tf
import keras


class Monomers:
    def __init__(self, count=8000, beads=32):
        rng = np.random.default_rng(44)
        self.chains = rng.normal(size=(count, beads)).astype("float32")
        self.modulus = np.tanh(self.chains[:, :7].sum(axis=1, keepdims=True))

    def grouped(self, **how):
        how.setdefault("size", 2)
        ds = tf.data.Dataset.from_tensor_slices((self.chains, self.modulus)).cache()
        return ds.batch(how["size"], drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Twist(keras.layers.Layer):
    def __init__(self, width):
        super().__init__()
        self.a = keras.layers.Dense(width, activation="tanh")
        self.b = keras.layers.Dense(width)

    def call(self, x):
        return x + self.b(self.a(x))


def braid(depth=3, width=32):
    start = keras.Input((width,))
    x = start
    for _ in range(depth):
        x = Twist(width)(x)
    return keras.Model(start, keras.layers.Dense(1)(x))


keras.utils.set_random_seed(44)
model = braid()
model.compile(optimizer=keras.optimizers.SGD(1e-3), loss="mse")
data = Monomers().grouped()
log = model.fit(data, epochs=2, verbose=0)
print("mse", log.history["loss"][-1])
