"""Snapshot ensemble of a tabular network: the weights at the end of each epoch are kept and averaged."""
import time
import numpy as np
import tensorflow as tf

x = np.random.rand(300, 30).astype("float32")
y = x.sum(1, keepdims=True)


def base():
    inp = tf.keras.Input((30,))
    h = inp
    for _ in range(6):
        a = tf.keras.layers.Dense(30)(h)
        a = tf.keras.layers.LayerNormalization()(a)
        a = tf.keras.layers.Activation("gelu")(a)
        h = tf.keras.layers.Add()([h, a])
    return tf.keras.Model(inp, tf.keras.layers.Dense(1)(h))


start_cpu = time.time()
model = base()
snapshots = [tf.keras.models.clone_model(model) for _ in range(40)]
model.compile("adam", "mse", jit_compile=False)
for kept in snapshots:
    model.fit(x, y, batch_size=30, epochs=1, verbose=0)
    kept.set_weights(model.get_weights())
mean = [np.mean(ws, axis=0) for ws in zip(*[kept.get_weights() for kept in snapshots])]
model.set_weights(mean)
print("WORK", 40 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - start_cpu))
