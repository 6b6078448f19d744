"""Segmentation-like regression with a custom loop; the score on the test set is followed closely."""
import time
import numpy as np
import tensorflow as tf

x = np.random.rand(1200, 24, 24, 1).astype("float32")
y = x.mean((1, 2, 3))
x_test = np.random.rand(1500, 24, 24, 1).astype("float32")
y_test = x_test.mean((1, 2, 3))

net = tf.keras.Sequential([
    tf.keras.layers.Input((24, 24, 1)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1),
])
opt = tf.keras.optimizers.Adam()


@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((net(a, training=True)[:, 0] - b) ** 2)
    grads = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(grads, net.trainable_variables))
    return loss


@tf.function
def test_step(a, b):
    return tf.reduce_mean((net(a, training=False)[:, 0] - b) ** 2)


train = tf.data.Dataset.from_tensor_slices((x, y)).batch(20).repeat().prefetch(2)
test = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(50).prefetch(2)
EVERY = 5

it = iter(train)
train_step(*next(it))
test_step(*next(iter(test)))
t0 = time.perf_counter()
for step in range(1, 481):
    loss = train_step(*next(it))
    if step % EVERY == 0:
        score = np.mean([float(test_step(a, b)) for a, b in test])
        if step % 60 == 0:
            print(step, "train %.5f test %.5f" % (float(loss), score))
print("WORK", 480 * 20)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
