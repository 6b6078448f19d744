"""Image embedding training that keeps a running record of every sample's loss (to mine hard examples later)."""
import time
import numpy as np
import tensorflow as tf

x = np.random.rand(4096, 128).astype("float32")
y = np.random.randint(0, 20, 4096)

model = tf.keras.Sequential([
    tf.keras.layers.Input((128,)),
    tf.keras.layers.Dense(64, activation="relu"),
    tf.keras.layers.Dense(20),
])
optimizer = tf.keras.optimizers.Adam(1e-3)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        per_sample = loss_fn(labels, model(images, training=True))
        loss = tf.reduce_mean(per_sample)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss, per_sample


ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(256).prefetch(tf.data.AUTOTUNE)
for images, labels in ds.take(2):
    train_step(images, labels)

history = []
t0 = time.perf_counter()
for epoch in range(16):
    seen = []
    for images, labels in ds:
        loss, per_sample = train_step(images, labels)
        for value in per_sample:
            seen.append(float(value))
    history.append(seen)
    print(f"epoch {epoch} mean {np.mean(seen):.4f} worst {max(seen):.4f}")
print("WORK", 16 * len(x))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
