"""Unconditional DDPM on crops of diatom micrographs.

Records: one JPEG (2048x2048, grey) per example, 30k slides, written by tools/pack.py as slides-XXXXX.tfrecord
"""
import argparse
import dataclasses
import glob
import math
import os

import tensorflow as tf
import keras
from keras import layers


@dataclasses.dataclass(frozen=True)
class Config:
    size: int = 64
    batch: int = 128
    epochs: int = 50
    timesteps: int = 1000
    base: int = 64
    lr: float = 2e-4
    ema: float = 0.999
    slides: int = 30000


def parse_slide(record):
    ex = tf.io.parse_single_example(record, {"jpeg": tf.io.FixedLenFeature([], tf.string)})
    img = tf.io.decode_jpeg(ex["jpeg"], channels=1)
    img = tf.image.random_crop(img, [512, 512, 1])
    img = tf.image.resize(img, [Config.size, Config.size], method="area")
    img = tf.image.random_flip_left_right(img)
    return tf.cast(img, tf.uint8)


def crops(pattern, cfg):
    files = sorted(glob.glob(pattern))
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=8)
    ds = ds.shuffle(512).repeat()
    ds = ds.map(parse_slide, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(cfg.batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def time_embedding(t, dim):
    freqs = tf.exp(-math.log(10000.0) * tf.range(dim // 2, dtype=tf.float32) / (dim // 2))
    ang = tf.cast(t, tf.float32)[:, None] * freqs[None, :]
    return tf.concat([tf.sin(ang), tf.cos(ang)], axis=-1)


def res_block(x, temb, ch):
    skip = x if x.shape[-1] == ch else layers.Conv2D(ch, 1)(x)
    h = layers.GroupNormalization(8)(x)
    h = layers.Conv2D(ch, 3, padding="same")(layers.Activation("swish")(h))
    h = layers.Add()([h, layers.Reshape((1, 1, ch))(layers.Dense(ch)(temb))])
    h = layers.GroupNormalization(8)(h)
    h = layers.Conv2D(ch, 3, padding="same")(layers.Activation("swish")(h))
    return layers.Add()([h, skip])


def unet(cfg):
    x_in = keras.Input((cfg.size, cfg.size, 1))
    t_in = keras.Input((cfg.base,))
    temb = layers.Dense(4 * cfg.base, activation="swish")(t_in)
    x = layers.Conv2D(cfg.base, 3, padding="same")(x_in)
    skips = []
    for mult in (1, 2, 4):
        x = res_block(x, temb, cfg.base * mult)
        skips.append(x)
        x = layers.AveragePooling2D()(x)
    x = res_block(x, temb, cfg.base * 4)
    for mult in (4, 2, 1):
        x = layers.UpSampling2D()(x)
        x = layers.Concatenate()([x, skips.pop()])
        x = res_block(x, temb, cfg.base * mult)
    x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
    return keras.Model([x_in, t_in], layers.Conv2D(1, 3, padding="same", kernel_initializer="zeros")(x))


class DDPM(keras.Model):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.net = unet(cfg)
        betas = tf.linspace(1e-4, 0.02, cfg.timesteps)
        self.alpha_bar = tf.math.cumprod(1.0 - tf.cast(betas, tf.float32))
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, inputs, training=False):
        return self.net(inputs, training=training)

    def train_step(self, images):
        x0 = tf.cast(images, tf.float32) / 127.5 - 1.0
        n = self.cfg.batch
        t = tf.random.uniform((n,), 0, self.cfg.timesteps, dtype=tf.int32)
        a = tf.reshape(tf.gather(self.alpha_bar, t), (n, 1, 1, 1))
        noise = tf.random.normal(tf.shape(x0))
        xt = tf.sqrt(a) * x0 + tf.sqrt(1.0 - a) * noise
        with tf.GradientTape() as tape:
            pred = self.net([xt, time_embedding(t, self.cfg.base)], training=True)
            loss = tf.reduce_mean(tf.square(pred - noise))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default="data/slides-*.tfrecord")
    ap.add_argument("--out", default="runs/diatom")
    args = ap.parse_args()
    os.makedirs(args.out, exist_ok=True)
    cfg = Config()
    model = DDPM(cfg)
    model.compile(optimizer=keras.optimizers.Adam(cfg.lr, use_ema=True, ema_momentum=cfg.ema, clipnorm=1.0))
    model.fit(crops(args.data, cfg), epochs=cfg.epochs, steps_per_epoch=cfg.slides // cfg.batch, verbose=2)
    model.net.save(os.path.join(args.out, "unet.keras"))


if __name__ == "__main__":
    main()
