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

start = time.time()
for epoch in range(epochs):
    for batch in range(num_batches):
        x_batch = np.random.randn(batch_size, input_dim)
        y_batch = np.random.rand(batch_size, output_dim)
        with tf.device(device):
            x_dev = tf.convert_to_tensor(x_batch, dtype=tf.float32)
            y_dev = tf.convert_to_tensor(y_batch, dtype=tf.float32)
            loss = model.train_on_batch(x_dev, y_dev)
    print(f"epoch {epoch}: loss {float(loss):.4f}")
print("WORK", epochs * num_batches * batch_size)
print(f"TRAIN_SECONDS {time.time() - start:.3f}")
