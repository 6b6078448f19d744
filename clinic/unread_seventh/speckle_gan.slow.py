"""SAR despeckling with an adversarial term: Sentinel-1 patches, multi-temporal mean as the clean target.

The discriminator is left alone while it wins too easily, otherwise the generator collapses on smooth fields.
"""
import dataclasses
import glob
import pathlib

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


@dataclasses.dataclass
class Config:
    shards: str = "/scratch/s1/patches/*.tfrecord"
    out: pathlib.Path = pathlib.Path("/scratch/s1/runs/gan")
    batch: int = 16
    steps: int = 150_000
    adv_weight: float = 0.02
    d_ceiling: float = 0.85
    log_every: int = 200
    save_every: int = 5_000


PATCH = 96
cfg = Config()
cfg.out.mkdir(parents=True, exist_ok=True)
keras.mixed_precision.set_global_policy("mixed_bfloat16")
AUTOTUNE = tf.data.AUTOTUNE


def parse(record):
    ex = tf.io.parse_single_example(
        record, {k: tf.io.FixedLenFeature([], tf.string) for k in ("noisy", "clean")}
    )
    pair = [tf.reshape(tf.io.decode_raw(ex[k], tf.half), (PATCH, PATCH, 1)) for k in ("noisy", "clean")]
    return tuple(pair)


train_ds = (
    tf.data.Dataset.from_tensor_slices(sorted(glob.glob(cfg.shards)))
    .shuffle(1000)
    .repeat()
    .interleave(tf.data.TFRecordDataset, cycle_length=8, num_parallel_calls=AUTOTUNE, deterministic=False)
    .shuffle(2_000)
    .map(parse, num_parallel_calls=AUTOTUNE)
    .batch(cfg.batch, drop_remainder=True)
    .take(cfg.steps)
    .prefetch(AUTOTUNE)
)


def make_generator(blocks=8, width=64):
    inp = keras.Input((PATCH, PATCH, 1))
    x = head = layers.Conv2D(width, 7, padding="same", activation="relu")(inp)
    for _ in range(blocks):
        y = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
        y = layers.Conv2D(width, 3, padding="same")(y)
        x = layers.Add()([x, y])
    x = layers.Add()([x, head])
    ratio = layers.Conv2D(1, 3, padding="same", dtype="float32")(x)
    return keras.Model(inp, layers.Subtract(dtype="float32")([inp, ratio]), name="generator")


def make_discriminator():
    inp = keras.Input((PATCH, PATCH, 1))
    x = inp
    for width in (64, 128, 256):
        x = layers.Conv2D(width, 4, strides=2, padding="same")(x)
        x = layers.LeakyReLU(0.2)(x)
    return keras.Model(inp, layers.Conv2D(1, 4, padding="same", dtype="float32")(x), name="discriminator")


G, D = make_generator(), make_discriminator()
g_opt = keras.optimizers.Adam(1e-4, beta_1=0.5)
d_opt = keras.optimizers.Adam(2e-4, beta_1=0.5)
g_opt.build(G.trainable_variables)
d_opt.build(D.trainable_variables)
bce = keras.losses.BinaryCrossentropy(from_logits=True)
stats = {k: keras.metrics.Mean(k) for k in ("l1", "adv", "d_loss", "d_acc")}


@tf.function
def generator_step(noisy, clean):
    target = tf.cast(clean, tf.float32)
    with tf.GradientTape() as tape:
        fake = G(noisy, training=True)
        logits = D(fake, training=False)
        l1 = tf.reduce_mean(tf.abs(fake - target))
        adv = bce(tf.ones_like(logits), logits)
        loss = l1 + cfg.adv_weight * adv
    g_opt.apply_gradients(zip(tape.gradient(loss, G.trainable_variables), G.trainable_variables))
    accuracy = tf.reduce_mean(tf.cast(logits < 0.0, tf.float32))
    stats["l1"].update_state(l1)
    stats["adv"].update_state(adv)
    stats["d_acc"].update_state(accuracy)
    return fake, accuracy


@tf.function
def discriminator_step(fake, clean):
    with tf.GradientTape() as tape:
        on_real = D(clean, training=True)
        on_fake = D(fake, training=True)
        loss = bce(0.9 * tf.ones_like(on_real), on_real) + bce(tf.zeros_like(on_fake), on_fake)
    d_opt.apply_gradients(zip(tape.gradient(loss, D.trainable_variables), D.trainable_variables))
    stats["d_loss"].update_state(loss)


checkpoint = tf.train.Checkpoint(G=G, D=D, g_opt=g_opt, d_opt=d_opt)
manager = tf.train.CheckpointManager(checkpoint, str(cfg.out / "ckpt"), max_to_keep=3)
writer = tf.summary.create_file_writer(str(cfg.out / "tb"))

for step, (noisy, clean) in enumerate(train_ds, 1):
    fake, accuracy = generator_step(noisy, clean)
    if accuracy < cfg.d_ceiling:
        discriminator_step(fake, clean)

    if step % cfg.log_every == 0:
        with writer.as_default(step=step):
            for name, metric in stats.items():
                tf.summary.scalar(name, metric.result())
                metric.reset_state()
            db = tf.clip_by_value(tf.concat([tf.cast(noisy[:3], tf.float32), fake[:3]], 2), 0.0, 1.0)
            if step % 2_000 == 0:
                tf.summary.image("noisy_vs_despeckled", db)
    if step % cfg.save_every == 0:
        manager.save(step)

G.save(cfg.out / "generator.keras")
