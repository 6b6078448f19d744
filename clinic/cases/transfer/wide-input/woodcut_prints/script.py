"""Country of origin of early woodcut prints, from colour scans; strip embedding and a small head."""
import time
import numpy as np
import tensorflow as tf
import keras
from keras import layers

SCANS, SIDE, COUNTRIES = 352, 192, 6
BATCH, STEPS = 32, 700


def load_scans():
    rng = np.random.default_rng(1493)
    country = rng.integers(0, COUNTRIES, SCANS)
    paper = rng.integers(120, 200, (COUNTRIES, 1, 1, 3))
    scans = rng.integers(0, 55, (SCANS, SIDE, SIDE, 3), dtype=np.uint8)
    scans = (scans + paper[country].astype("uint8")).astype("uint8")
    return scans, country.astype("int32")


def prepare(scans):
    return scans / 255.0


def stream(images, labels):
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    ds = ds.repeat().shuffle(64, seed=4)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def make_model():
    scan = keras.Input((SIDE, SIDE, 3))
    x = layers.Reshape((SIDE // 16, 16 * SIDE * 3))(scan)
    x = layers.Dense(8, activation="relu", name="strips")(x)
    x = layers.GlobalAveragePooling1D()(x)
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(scan, layers.Dense(COUNTRIES)(x))


model = make_model()
optimizer = keras.optimizers.Adam(3e-3)
criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
running = keras.metrics.Mean()


@tf.function
def learn(images, labels):
    with tf.GradientTape() as tape:
        x = tf.cast(images, tf.float32)
        loss = criterion(labels, model(x, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    running.update_state(loss)


scans, country = load_scans()
images = prepare(scans)
print(images.shape, images.dtype)
data = iter(stream(images, country))
learn(*next(data))

t0 = time.perf_counter()
for step in range(1, STEPS + 1):
    learn(*next(data))
    if step % 175 == 0:
        print(f"step {step}: loss {float(running.result()):.4f}")
        running.reset_state()
seconds = time.perf_counter() - t0
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % seconds)
