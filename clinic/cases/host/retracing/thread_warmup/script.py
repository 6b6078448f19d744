"""Thread tension regression with a warm-up + cosine learning rate computed from the step number."""
import math
import time

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
BATCH, EPOCHS, ROWS = 32, 2, 1024
WARMUP = 6
TOTAL = EPOCHS * ROWS // BATCH


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [tf.keras.layers.Dense(64, activation="gelu") for _ in range(1)]
        self.norms = [tf.keras.layers.LayerNormalization() for _ in range(1)]
        self.head = tf.keras.layers.Dense(1)

    def call(self, x):
        for dense, norm in zip(self.body, self.norms):
            x = norm(dense(x))
        return self.head(x)


net = Net()
net(tf.zeros((1, 20)))
opt = tf.keras.optimizers.AdamW(1e-3)


def rate(step):
    if step < WARMUP:
        return 1e-3 * (step + 1) / WARMUP
    return 5e-4 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


@tf.function
def learn(x, y, lr):
    opt.learning_rate.assign(lr)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(net(x, training=True)[:, 0] - y))
    g = tape.gradient(loss, net.trainable_variables)
    g, _ = tf.clip_by_global_norm(g, 1.0)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


rng = np.random.default_rng(2)
X = rng.normal(size=(ROWS, 20)).astype("float32")
Y = (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(ROWS, seed=2).batch(BATCH).prefetch(2)

began = time.time()
step = 0
for epoch in range(EPOCHS):
    for x, y in ds:
        loss = learn(x, y, rate(step))
        step += 1
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
print(f"WORK {step * BATCH}")
print(f"TRAIN_SECONDS {time.time() - began:.3f}")
