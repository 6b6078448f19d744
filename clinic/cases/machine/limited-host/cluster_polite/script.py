"""Protein contact net on a login node; told TensorFlow to keep to itself."""
import time
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)

maps = np.random.rand(640, 48, 48, 8).astype("float32")
contact = np.random.randint(0, 2, 640).astype("float32")
net = tf.keras.Sequential([
    tf.keras.layers.Input((48, 48, 8)),
    tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam()
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = bce(y[:, None], net(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices((maps, contact)).batch(16).cache().prefetch(2)
for x, y in ds:
    step(x, y)
t0 = time.time()
for epoch in range(5):
    for x, y in ds:
        loss = step(x, y)
    print("epoch", epoch, "loss %.4f" % float(loss))
print("WORK", 5 * len(maps))
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
