"""Vessel segmentation in fundus photographs with a threshold sweep at the end."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 384
BATCH = 8
STEPS = 20_000
THRESHOLDS = [0.3, 0.4, 0.5, 0.6, 0.7]


def fundus(n=200):
    rng = np.random.default_rng(30)
    img = rng.integers(0, 255, (n, SIDE, SIDE, 3), dtype=np.uint8)
    vessel = (img[..., 1:2] > 200).astype(np.uint8)
    return img, vessel


def network():
    inp = layers.Input((SIDE, SIDE, 3))
    x = layers.Rescaling(1 / 255.0)(inp)
    a = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
    b = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2D(64, 3, strides=2, padding="same", activation="relu")(b)
    d = layers.UpSampling2D()(c)
    d = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.Concatenate()([d, b]))
    e = layers.UpSampling2D()(d)
    e = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.Concatenate()([e, a]))
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(e))


net = network()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(net.trainable_variables)
bce = keras.losses.BinaryCrossentropy()


@tf.function
def train_step(img, vessel):
    with tf.GradientTape() as tape:
        prob = net(tf.cast(img, tf.float32), training=True)
        loss = bce(vessel, prob)
    grads = tape.gradient(loss, net.trainable_variables)
    optimizer.apply_gradients(zip(grads, net.trainable_variables))
    return loss, prob


def make_ds():
    ds = tf.data.Dataset.from_tensor_slices(fundus()).shuffle(200).repeat()
    return ds.batch(BATCH).prefetch(tf.data.AUTOTUNE).take(STEPS)


sweep = [keras.metrics.BinaryIoU(target_class_ids=[1], threshold=th) for th in THRESHOLDS]


@tf.function
def update_sweep(vessel, prob):
    for iou in sweep:
        iou.update_state(vessel, prob)


for step, (img, vessel) in enumerate(make_ds()):
    loss, prob = train_step(img, vessel)
    update_sweep(vessel, prob)
    if step % 200 == 0:
        print(step, float(loss))

for th, iou in zip(THRESHOLDS, sweep):
    print(f"threshold {th}: running IoU {float(iou.result()):.3f}")
