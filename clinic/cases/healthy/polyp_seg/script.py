import os
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow.keras import Model, layers, optimizers


def draw_case(i):
    rng = np.random.default_rng(int(i))
    yy, xx = np.mgrid[:96, :96]
    cy, cx, r = rng.uniform(25, 70), rng.uniform(25, 70), rng.uniform(8, 22)
    mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < r * r)
    img = 0.5 + 0.2 * mask + 0.1 * np.sin(xx / 9 + cy) + 0.08 * rng.standard_normal((96, 96))
    return img[..., None].astype("float32"), mask[..., None].astype("float32")


def case_op(i):
    img, mask = tf.numpy_function(draw_case, [i], (tf.float32, tf.float32))
    return tf.ensure_shape(img, (96, 96, 1)), tf.ensure_shape(mask, (96, 96, 1))


def block(x, c):
    for _ in range(2):
        x = layers.Conv2D(c, 3, padding="same", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(x))
    return x


def unet():
    inp = layers.Input((96, 96, 1))
    a = block(inp, 24)
    b = block(layers.MaxPooling2D()(a), 48)
    c = block(layers.MaxPooling2D()(b), 96)
    d = block(layers.Concatenate()([layers.UpSampling2D()(c), b]), 48)
    e = block(layers.Concatenate()([layers.UpSampling2D()(d), a]), 24)
    return Model(inp, layers.Conv2D(1, 1)(e))


def dice_bce(y, logits):
    p = tf.sigmoid(logits)
    dice = 1 - (2 * tf.reduce_sum(p * y) + 1) / (tf.reduce_sum(p + y) + 1)
    return dice + tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, logits))


net, opt = unet(), optimizers.Adam(1e-3)
opt.build(net.trainable_variables)
ds = (tf.data.Dataset.range(100000).map(case_op, num_parallel_calls=tf.data.AUTOTUNE)
      .batch(4, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = dice_bce(y, net(x, training=True))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


tic, steps = time.perf_counter(), 0
for x, y in ds.take(36):
    loss = train_step(x, y)
    steps += 1
    if steps % 10 == 0:
        print("step", steps, "loss %.4f" % loss.numpy())
print("WORK", steps * 4)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - tic))
