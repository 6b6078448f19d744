"""Small segmentation net on synthetic endoscopy frames. A hand-kept loop that holds on to the best weights."""
import os
from dataclasses import dataclass, field

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers, losses, optimizers


@dataclass
class Plan:
    side: int = 48
    batch: int = 16
    steps: int = 160
    look_every: int = 4
    dev_cases: int = 384
    history: list = field(default_factory=list)


def frames(n, side, seed):
    r = np.random.default_rng(seed)
    yy, xx = np.mgrid[:side, :side]
    cy, cx, rad = r.uniform(8, side - 8, (n, 1, 1)), r.uniform(8, side - 8, (n, 1, 1)), r.uniform(3, 9, (n, 1, 1))
    mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < rad ** 2)[..., None].astype("float32")
    img = r.normal(0.4, 0.2, (n, side, side, 3)) + mask * r.uniform(0.1, 0.5, (n, 1, 1, 3))
    return img.astype("float32"), mask


def unet(side):
    inp = layers.Input((side, side, 3))
    a = layers.Conv2D(12, 3, padding="same", activation="relu")(inp)
    b = layers.Conv2D(24, 3, strides=2, padding="same", activation="relu")(a)
    c = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(b)
    u = layers.Conv2DTranspose(24, 2, strides=2, activation="relu")(c)
    u = layers.Concatenate()([u, b])
    u = layers.Conv2DTranspose(12, 2, strides=2, activation="relu")(u)
    u = layers.Concatenate()([u, a])
    return Model(inp, layers.Conv2D(1, 3, padding="same")(u))


class Keeper:
    def __init__(self, net, dev):
        self.net, self.dev, self.best, self.weights = net, dev, -1.0, None

    @tf.function
    def overlap(self, x, m):
        p = tf.cast(self.net(x, training=False) > 0, tf.float32)
        return tf.reduce_sum(p * m), tf.reduce_sum(p) + tf.reduce_sum(m)

    def look(self):
        inter = union = 0.0
        for x, m in self.dev:
            i, u = self.overlap(x, m)
            inter, union = inter + i, union + u
        dice = float(2 * inter / (union + 1e-6))
        if dice > self.best:
            self.best, self.weights = dice, self.net.get_weights()
        return dice


def run(plan):
    x, m = frames(1024, plan.side, 0)
    train = (tf.data.Dataset.from_tensor_slices((x, m)).shuffle(1024, seed=2).repeat()
             .batch(plan.batch).prefetch(2).take(plan.steps))
    dev = tf.data.Dataset.from_tensor_slices(frames(plan.dev_cases, plan.side, 1)).batch(32).cache().prefetch(1)
    net = unet(plan.side)
    opt = optimizers.Adam(2e-3)
    opt.build(net.trainable_variables)
    bce = losses.BinaryCrossentropy(from_logits=True)
    keeper = Keeper(net, dev)

    @tf.function
    def update(bx, bm):
        with tf.GradientTape() as tape:
            loss = bce(bm, net(bx, training=True))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    for step, (bx, bm) in enumerate(train, 1):
        loss = update(bx, bm)
        if step % plan.look_every == 0:
            plan.history.append((step, keeper.look()))
        if step % 40 == 0:
            print(f"step {step}: loss {float(loss):.4f}  best dice {keeper.best:.3f}")
    net.set_weights(keeper.weights)


run(Plan())
