"""Fine-grained car part recognition. JPEG shards in, wide conv net on top."""
import argparse
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

PARTS = 6
FULL, VIEW = 112, 96


def write_shards(folder, count, shards, seed=51):
    rng = np.random.default_rng(seed)
    names = [os.path.join(folder, 'parts-%02d.tfrecord' % s) for s in range(shards)]
    writers = [tf.io.TFRecordWriter(n) for n in names]
    for i in range(count):
        part = i % PARTS
        im = rng.integers(30, 190, (14, 14, 3)).repeat(16, 0).repeat(16, 1)
        im[::4 + 2 * part] += 40
        im = np.clip(im + rng.normal(0, 8, im.shape), 0, 255).astype('uint8')
        ex = tf.train.Example(features=tf.train.Features(feature={
            'jpeg': tf.train.Feature(bytes_list=tf.train.BytesList(value=[tf.io.encode_jpeg(im).numpy()])),
            'part': tf.train.Feature(int64_list=tf.train.Int64List(value=[part]))}))
        writers[i % shards].write(ex.SerializeToString())
    for w in writers:
        w.close()
    return names


def decode(record):
    ex = tf.io.parse_single_example(record, {'jpeg': tf.io.FixedLenFeature([], tf.string),
                                             'part': tf.io.FixedLenFeature([], tf.int64)})
    im = tf.image.resize(tf.io.decode_jpeg(ex['jpeg'], channels=3), (FULL, FULL), antialias=True)
    return tf.cast(tf.clip_by_value(im, 0, 255), tf.uint8), ex['part']


def augment(im, part):
    im = tf.image.random_crop(im, (VIEW, VIEW, 3))
    im = tf.image.random_flip_left_right(im)
    im = tf.cast(im, tf.float32) / 127.5 - 1.
    return im * tf.random.uniform((), .8, 1.2), part


def input_fn(names, count, batch):
    ds = tf.data.Dataset.from_tensor_slices(names)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.cache().shuffle(count)
    ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def wide_net():
    x = inp = keras.Input((VIEW, VIEW, 3))
    x = layers.Conv2D(40, 5, strides=2, padding='same', activation='relu')(x)
    for width, stride in ((64, 1), (96, 2), (128, 2)):
        x = layers.Conv2D(width, 3, strides=stride, padding='same', activation='relu')(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(PARTS)(x))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--images', type=int, default=192)
    ap.add_argument('--batch', type=int, default=16)
    ap.add_argument('--epochs', type=int, default=6)
    a = ap.parse_args()
    keras.utils.set_random_seed(51)
    with tempfile.TemporaryDirectory() as folder:
        names = write_shards(folder, a.images, shards=4)
        model = wide_net()
        model.compile(keras.optimizers.SGD(.02, momentum=.9),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
        t0 = time.time()
        model.fit(input_fn(names, a.images, a.batch), epochs=a.epochs, verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    main()
