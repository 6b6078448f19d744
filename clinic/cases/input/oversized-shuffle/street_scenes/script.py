"""Scene tagging on 256x256 frames held in memory, shuffled in a wide window, in short epochs."""
import time
import numpy as np
import tensorflow as tf

frames = np.random.randint(0, 255, (2200, 256, 256, 3), dtype=np.uint8)
tags = np.random.randint(0, 6, 2200)


def to_float(frame, tag):
    return tf.cast(frame, tf.float32) / 255.0, tag


def training_set():
    ds = tf.data.Dataset.from_tensor_slices((frames, tags))
    ds = ds.map(to_float, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(buffer_size=2000, reshuffle_each_iteration=True)
    return ds.batch(10).prefetch(2)


net = tf.keras.Sequential([
    tf.keras.layers.Input((256, 256, 3)),
    tf.keras.layers.Conv2D(8, 8, strides=8, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(6),
])
opt = tf.keras.optimizers.Adam()
ce = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = ce(y, net(x, training=True))
    g = tape.gradient(loss, net.trainable_variables)
    opt.apply_gradients(zip(g, net.trainable_variables))
    return loss


ds = training_set()
step(tf.zeros((10, 256, 256, 3)), tf.zeros((10,), tf.int64))
t0, n = time.time(), 0
for epoch in range(5):
    for x, y in ds.take(25):
        loss = step(x, y)
        n += 1
    print(f"epoch {epoch + 1} loss {float(loss):.3f}")
print("WORK", n * 10)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
