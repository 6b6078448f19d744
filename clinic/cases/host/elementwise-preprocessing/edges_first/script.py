"""Digits classified from their edge maps."""
import time
import numpy as np
import tensorflow as tf


def edges(image, kernel):
    output = np.zeros_like(image)
    padded = np.pad(image, ((1, 1), (1, 1)))
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            output[i, j] = np.sum(padded[i:i + 3, j:j + 3] * kernel)
    return output


digits = np.random.rand(1500, 28, 28).astype(np.float32)
labels = np.random.randint(0, 10, 1500)
kernel = np.array([[-1, -1, -1], [-1, 8, -1], [-1, -1, -1]], np.float32)

start_time = time.time()
maps = np.stack([edges(d, kernel) for d in digits])
model = tf.keras.Sequential([
    tf.keras.layers.Input((28, 28)),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(10, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(maps, labels, epochs=2, batch_size=32, verbose=2)
print("WORK", len(digits))
print(f"TRAIN_SECONDS {time.time() - start_time:.3f}")
