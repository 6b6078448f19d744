"""Snapshot ensemble of a tabular network: the weights after each pass are kept and averaged."""
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
snapshots = [tf.keras.models.clone_model(model) for _ in range(60)]
model.compile("adam", "mse", jit_compile=False)
for kept in snapshots:
    for lo in range(0, 300, 60):
        loss = model.train_on_batch(x[lo:lo + 60], y[lo:lo + 60])
    kept.set_weights(model.get_weights())
mean = [np.mean(ws, axis=0) for ws in zip(*[kept.get_weights() for kept in snapshots])]
model.set_weights(mean)
print("last loss %.4f" % float(loss))
print("WORK", 60 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - start_cpu))
