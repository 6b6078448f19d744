"""Tile classifier for stained biopsies (H&E), fixed budget of steps."""
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
import keras
from keras import layers

SIDE = 320
CLASSES = ['stroma', 'tumour', 'fat', 'necrosis']


def scan_slides(root, tiles=2800, seed=41):
    """Writes tiles.tfrecord and meta.json, like the slide scanner's tool does."""
    rng = np.random.default_rng(seed)
    tint = np.array([[200, 150, 190], [150, 90, 170], [230, 220, 225], [190, 170, 150]])
    seen = []
    for k in range(64):
        cell = rng.normal(0, 30, (SIDE // 10, SIDE // 10, 1)).repeat(10, 0).repeat(10, 1)
        im = tint[k % 4] + cell + rng.normal(0, 5, (SIDE, SIDE, 3))
        seen.append((tf.io.encode_jpeg(np.clip(im, 0, 255).astype('uint8'), quality=90).numpy(), k % 4))
    with tf.io.TFRecordWriter(str(root / 'tiles.tfrecord')) as w:
        for _ in range(tiles):
            jpeg, label = seen[int(rng.integers(len(seen)))]
            w.write(tf.train.Example(features=tf.train.Features(feature={
                'jpeg': tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
                'label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))})).SerializeToString())
    (root / 'meta.json').write_text(json.dumps({'tiles': tiles, 'classes': CLASSES}))


def read_tile(record):
    ex = tf.io.parse_single_example(record, {'jpeg': tf.io.FixedLenFeature([], tf.string),
                                             'label': tf.io.FixedLenFeature([], tf.int64)})
    im = tf.io.decode_jpeg(ex['jpeg'], channels=3)
    im = tf.image.per_image_standardization(tf.ensure_shape(im, (SIDE, SIDE, 3)))
    return im, ex['label']


def load(root, batch_size):
    meta = json.loads((root / 'meta.json').read_text())
    ds = tf.data.TFRecordDataset(str(root / 'tiles.tfrecord')).repeat()
    ds = ds.map(read_tile, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(meta['tiles'])
    ds = ds.batch(batch_size, drop_remainder=True)
    return ds.prefetch(2), len(meta['classes'])


def backbone(classes):
    x = inp = keras.Input((SIDE, SIDE, 3))
    x = layers.Conv2D(12, 8, strides=8, activation='relu')(x)
    x = layers.SeparableConv2D(24, 3, activation='relu')(x)
    x = layers.MaxPooling2D()(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, layers.Dense(classes, activation='softmax')(x))


def run(batch_size=8, steps=40, epochs=3):
    keras.utils.set_random_seed(41)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        scan_slides(root)
        data, classes = load(root, batch_size)
        model = backbone(classes)
        model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
        t0 = time.time()
        model.fit(data, steps_per_epoch=steps, epochs=epochs, verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))


if __name__ == '__main__':
    os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
    run()
