"""A first try: does moisture tell soft from hard cheese?  A handful of steps."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(8)
x = np.random.default_rng(8).uniform(.3, .8, (96, 2)).astype("float32")
y = (x[:, 0] > .55).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(8, activation="relu"),
                             tf.keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy")
model.fit(x, y, batch_size=32, epochs=2, verbose=2)
print("done")
