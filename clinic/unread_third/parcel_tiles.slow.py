"""Field-parcel segmentation from aerial tiles."""
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, Model

TILE = 1024
CROP = 256
BATCH = 32
STEPS = 400


def write_shards(folder, shards=8, per_shard=96):
    rng = np.random.default_rng(3)
    paths = []
    for s in range(shards):
        path = os.path.join(folder, f"tiles-{s:03d}.tfrecord")
        with tf.io.TFRecordWriter(path) as writer:
            for _ in range(per_shard):
                coarse = rng.integers(0, 255, (TILE // 16, TILE // 16, 3), dtype=np.uint8)
                tile = np.kron(coarse, np.ones((16, 16, 1), np.uint8))
                mask = (tile[..., :1] > 128).astype(np.uint8)
                feat = {
                    "tile": tf.train.Feature(bytes_list=tf.train.BytesList(
                        value=[tf.io.encode_jpeg(tile, quality=95).numpy()])),
                    "mask": tf.train.Feature(bytes_list=tf.train.BytesList(
                        value=[tf.io.encode_png(mask).numpy()])),
                }
                writer.write(tf.train.Example(
                    features=tf.train.Features(feature=feat)).SerializeToString())
        paths.append(path)
    return paths


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "tile": tf.io.FixedLenFeature([], tf.string),
        "mask": tf.io.FixedLenFeature([], tf.string),
    })
    tile = tf.io.decode_jpeg(ex["tile"], channels=3)
    mask = tf.io.decode_png(ex["mask"], channels=1)
    both = tf.image.random_crop(tf.concat([tile, mask], -1), [CROP, CROP, 4])
    return both[..., :3], both[..., 3:]


def make_dataset(paths):
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = False
    ds = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths)).repeat()
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=4)
    ds = ds.shuffle(128)
    ds = ds.map(parse, num_parallel_calls=8)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.with_options(options)


def block(x, f):
    for _ in range(2):
        x = layers.Conv2D(f, 3, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    return x


def unet():
    inp = layers.Input((CROP, CROP, 3), dtype="uint8")
    x = layers.Rescaling(1 / 255.0)(inp)
    skips = []
    for f in (32, 64, 128):
        x = block(x, f)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = block(x, 256)
    for f, s in zip((128, 64, 32), reversed(skips)):
        x = layers.Conv2DTranspose(f, 2, strides=2)(x)
        x = block(layers.Concatenate()([x, s]), f)
    return Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(x))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        train = make_dataset(write_shards(tmp))
        net = unet()
        net.compile("adam", "binary_crossentropy")
        net.fit(train, steps_per_epoch=STEPS, epochs=3)
