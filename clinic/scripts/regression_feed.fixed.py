"""Fit a regression network batch by batch with train_on_batch."""
import time

import numpy as np
import tensorflow as tf

epochs, num_batches, batch_size = 10, 50, 512
input_dim, output_dim = 1200, 8
device = "/GPU:0" if tf.config.list_physical_devices("GPU") else "/CPU:0"

model = tf.keras.Sequential([
    tf.keras.layers.Input((input_dim,)),
    tf.keras.layers.Dense(16, activation="relu"),
    tf.keras.layers.Dense(output_dim),
])
model.compile(optimizer="sgd", loss="mse")
model.train_on_batch(tf.zeros((batch_size, input_dim)), tf.zeros((batch_size, output_dim)))

x_train = np.random.randn(num_batches * batch_size, input_dim).astype("float32")
y_train = np.random.rand(num_batches * batch_size, output_dim).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
dataset = dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)

start = time.time()
for epoch in range(epochs):
    for x_dev, y_dev in dataset:
        with tf.device(device):
            loss = model.train_on_batch(x_dev, y_dev)
    print(f"epoch {epoch}: loss {float(loss):.4f}")
print("WORK", epochs * num_batches * batch_size)
print(f"TRAIN_SECONDS {time.time() - start:.3f}")
