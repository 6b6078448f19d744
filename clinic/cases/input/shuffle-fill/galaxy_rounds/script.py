"""Galaxy morphology, trained in short rounds with a fresh look at the learning rate after each."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

N, SIDE = 2600, 96
ROUNDS, STEPS, BATCH = 7, 22, 32


def render_sky(n):
    rng = np.random.default_rng(42)
    yy, xx = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j].astype("float32")
    pngs, kinds = [], []
    for k in range(200):
        arms = k % 3
        r, th = np.hypot(xx, yy), np.arctan2(yy, xx)
        img = np.exp(-4 * r) * (1 + 0.6 * np.cos(arms * th + 6 * r)) + rng.normal(0, .03, r.shape)
        rgb = np.stack([img, img * .8, img * .6], -1)
        pngs.append(tf.io.encode_png((np.clip(rgb, 0, 1) * 255).astype("uint8")).numpy())
        kinds.append(arms)
    pick = rng.integers(0, 200, n)
    return np.array([pngs[i] for i in pick], dtype=object), np.array(kinds)[pick]


def read(png, kind):
    img = tf.image.decode_png(png, channels=3)
    img = tf.image.resize(img, (48, 48))
    return img / 255.0, kind


def survey():
    png, kind = render_sky(N)
    ds = tf.data.Dataset.from_tensor_slices((png.tolist(), kind))
    ds = ds.map(read, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(N)
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE)


def model():
    return keras.Sequential([
        keras.Input((48, 48, 3)),
        layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
        layers.Flatten(), layers.Dense(3)])


train = survey()
net = model()
net.compile(keras.optimizers.SGD(0.05, momentum=0.9),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
best, t0 = 1e9, time.time()
for r in range(ROUNDS):
    h = net.fit(train.take(STEPS), epochs=1, verbose=0).history
    loss = h["loss"][-1]
    if loss > best * 0.98:
        net.optimizer.learning_rate.assign(net.optimizer.learning_rate * 0.5)
    best = min(best, loss)
    print(f"round {r} loss {loss:.4f} acc {h['accuracy'][-1]:.3f}")
spent = time.time() - t0
print("WORK", ROUNDS * STEPS * BATCH)
print("TRAIN_SECONDS %.2f" % spent)
