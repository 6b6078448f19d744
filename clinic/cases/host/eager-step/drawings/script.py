"""Doodle recognition with a custom loop and a small convolutional net."""
import time
import numpy as np
import tensorflow as tf

# handy for print() and pdb inside the step
tf.config.run_functions_eagerly(True)

doodles = np.random.rand(1600, 14, 14, 1).astype("float32")
kinds = np.random.randint(0, 8, 1600)


class Doodler(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.body = [tf.keras.layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(4)]
        self.pool = tf.keras.layers.GlobalAveragePooling2D()
        self.head = tf.keras.layers.Dense(8)

    def call(self, x):
        for layer in self.body:
            x = layer(x)
        return self.head(self.pool(x))


model = Doodler()
opt = tf.keras.optimizers.Adam(2e-3)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = xent(y, model(x))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


data = tf.data.Dataset.from_tensor_slices((doodles, kinds)).batch(8).prefetch(tf.data.AUTOTUNE)
for x, y in data.take(2):
    train_step(x, y)
tic = time.perf_counter()
for epoch in range(1):
    for x, y in data:
        loss = train_step(x, y)
    print("epoch", epoch, float(loss))
print("WORK", 1600)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - tic))
