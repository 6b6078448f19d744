"""The lift of a kite from its shape and the wind; gradient descent with momentum."""
import time
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
shapes = rng.normal(size=(16_000, 32)).astype("float32")
lift = (np.tanh(shapes @ rng.normal(size=(32, 8)) / 4) @ rng.normal(size=(8, 1))).astype("float32")
lift += 0.1 * rng.normal(size=lift.shape).astype("float32")

model = tf.keras.Sequential([
    tf.keras.layers.Input((32,)),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(1),
])
model.compile(tf.keras.optimizers.SGD(learning_rate=0.02, momentum=0.9), "mse")
t0 = time.time()
model.fit(shapes, lift, batch_size=100, epochs=8, verbose=2)
print("WORK", 8 * len(shapes))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
