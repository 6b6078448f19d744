# Detector for blue/fin whale call types on 15 s hydrophone windows.
# Records: uint8 mel image (128 x 256) and one of 9 call classes.
from __future__ import print_function

import os
import sys
import time

import tensorflow as tf

flags = {
    "data_dir": os.environ.get("WHALE_DATA", "/data/antarctic_2023"),
    "model_dir": os.environ.get("WHALE_MODEL", "/models/whale_v3"),
}

N_MEL, N_FRAME, N_CLASS = 128, 256, 9
BATCH = 128
EPOCHS = 80
RAMP = 20
BASE_LR = 1e-3
N_TRAIN = 121_600
SEED = 40

tf.random.set_seed(SEED)
tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")


def parse_window(record):
    ex = tf.io.parse_single_example(record, {
        "mel": tf.io.FixedLenFeature([], tf.string),
        "call": tf.io.FixedLenFeature([], tf.int64),
    })
    mel = tf.reshape(tf.io.decode_raw(ex["mel"], tf.uint8), [N_MEL, N_FRAME])
    return mel, tf.cast(ex["call"], tf.int32)


def load_split(name):
    files = sorted(tf.io.gfile.glob(os.path.join(flags["data_dir"], name + "-*.tfrec")))
    if not files:
        sys.exit("no files for split " + name)
    ds = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    return ds.map(parse_window, num_parallel_calls=tf.data.AUTOTUNE).cache()


def band(length, width):
    """0/1 vector of the given length with one random run of zeros."""
    w = tf.random.uniform([], 0, width + 1, dtype=tf.int32)
    start = tf.random.uniform([], 0, length - w + 1, dtype=tf.int32)
    pos = tf.range(length)
    return tf.cast((pos < start) | (pos >= start + w), tf.uint8)


def mask_bands(mel, strength):
    f, t = int(24 * strength), int(48 * strength)
    for _ in range(2):
        mel = mel * band(N_MEL, f)[:, None] * band(N_FRAME, t)[None, :]
    return mel


def conv_unit(x, ch, stride):
    x = tf.keras.layers.Conv2D(ch, 3, strides=stride, padding="same", use_bias=False)(x)
    x = tf.keras.layers.BatchNormalization()(x)
    return tf.keras.layers.ReLU()(x)


def build_model():
    inp = tf.keras.Input([N_MEL, N_FRAME], dtype="uint8")
    x = tf.keras.layers.Rescaling(1.0 / 255)(inp)
    x = tf.keras.layers.Reshape([N_MEL, N_FRAME, 1])(x)
    x = conv_unit(x, 32, 2)
    for ch in (64, 128, 256):
        x = conv_unit(x, ch, 2)
        x = conv_unit(x, ch, 1)
    x = tf.keras.layers.GlobalAveragePooling2D()(x)
    x = tf.keras.layers.Dropout(0.3)(x)
    out = tf.keras.layers.Dense(N_CLASS, dtype="float32")(x)
    return tf.keras.Model(inp, out)


model = build_model()
steps_per_epoch = N_TRAIN // BATCH
optimizer = tf.keras.optimizers.Adam(
    tf.keras.optimizers.schedules.CosineDecay(BASE_LR, steps_per_epoch * EPOCHS))
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_loss = tf.keras.metrics.Mean()
valid_loss = tf.keras.metrics.Mean()
valid_acc = tf.keras.metrics.SparseCategoricalAccuracy()

SIGNATURE = [tf.TensorSpec([None, N_MEL, N_FRAME], tf.uint8), tf.TensorSpec([None], tf.int32)]


@tf.function(input_signature=SIGNATURE)
def train_step(mel, call):
    with tf.GradientTape() as tape:
        loss = loss_fn(call, model(mel, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    train_loss.update_state(loss)


@tf.function(input_signature=SIGNATURE)
def valid_step(mel, call):
    logits = model(mel, training=False)
    valid_loss.update_state(loss_fn(call, logits))
    valid_acc.update_state(call, logits)


epoch_var = tf.Variable(0, dtype=tf.int64)
ckpt = tf.train.Checkpoint(model=model, optimizer=optimizer, epoch=epoch_var)
manager = tf.train.CheckpointManager(ckpt, flags["model_dir"], max_to_keep=3)
ckpt.restore(manager.latest_checkpoint)
writer = tf.summary.create_file_writer(os.path.join(flags["model_dir"], "tb"))

train_ds = load_split("train")
valid_ds = load_split("valid").batch(512).prefetch(tf.data.AUTOTUNE)

for epoch in range(int(epoch_var), EPOCHS):
    began = time.time()
    strength = min(1.0, (epoch + 1) / RAMP)
    epoch_ds = train_ds.shuffle(6000, seed=SEED + epoch)
    epoch_ds = epoch_ds.map(lambda mel, call: (mask_bands(mel, strength), call),
                            num_parallel_calls=tf.data.AUTOTUNE)
    for mel, call in epoch_ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE):
        train_step(mel, call)
    for mel, call in valid_ds:
        valid_step(mel, call)

    with writer.as_default(step=epoch):
        tf.summary.scalar("loss/train", train_loss.result())
        tf.summary.scalar("loss/valid", valid_loss.result())
        tf.summary.scalar("accuracy/valid", valid_acc.result())
    print("epoch %d: train %.4f valid %.4f acc %.4f (%.0f s)" % (
        epoch, train_loss.result(), valid_loss.result(), valid_acc.result(), time.time() - began))
    for metric in (train_loss, valid_loss, valid_acc):
        metric.reset_state()
    epoch_var.assign(epoch + 1)
    if epoch % 5 == 4:
        manager.save()

model.save(os.path.join(flags["model_dir"], "final.keras"))
