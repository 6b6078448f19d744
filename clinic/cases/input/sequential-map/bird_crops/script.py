import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

NUM_SPECIES = 12
CROP = 96
BATCH = 32


# ---------------------------------------------------------------- data
def photo(rng, species, side=256):
    im = rng.integers(40, 200, (8, 8, 3)).repeat(side // 8, 0).repeat(side // 8, 1).astype('float32')
    im += rng.normal(0, 10, im.shape)
    im[..., species % 3] += 6 * species
    return np.clip(im, 0, 255).astype('uint8')


def export(folder, count, shards=4, seed=3):
    rng = np.random.default_rng(seed)
    pool = []
    for k in range(96):
        label = k % NUM_SPECIES
        pool.append((tf.io.encode_jpeg(photo(rng, label), quality=90).numpy(), label))
    names = [os.path.join(folder, 'train-%d-of-%d.tfrecord' % (s, shards)) for s in range(shards)]
    writers = [tf.io.TFRecordWriter(n) for n in names]
    for i in range(count):
        raw, label = pool[int(rng.integers(len(pool)))]
        x1, y1 = rng.uniform(0, .3, 2)
        x2, y2 = rng.uniform(.7, 1., 2)
        ex = tf.train.Example(features=tf.train.Features(feature={
            'image/encoded': tf.train.Feature(bytes_list=tf.train.BytesList(value=[raw])),
            'image/box': tf.train.Feature(float_list=tf.train.FloatList(value=[y1, x1, y2, x2])),
            'image/class': tf.train.Feature(int64_list=tf.train.Int64List(value=[label]))}))
        writers[i % shards].write(ex.SerializeToString())
    for w in writers:
        w.close()
    return names


# ---------------------------------------------------------------- stages of the reader
def unpack(record):
    ex = tf.io.parse_single_example(record, {
        'image/encoded': tf.io.FixedLenFeature([], tf.string),
        'image/box': tf.io.FixedLenFeature([4], tf.float32),
        'image/class': tf.io.FixedLenFeature([], tf.int64)})
    return ex['image/encoded'], ex['image/box'], ex['image/class']


def crop(raw, box, label):
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.io.extract_jpeg_shape(raw), box[None, None], min_object_covered=.5,
        aspect_ratio_range=[.75, 1.33], area_range=[.5, 1.], max_attempts=20,
        use_image_if_no_bounding_boxes=True)
    y, x, _ = tf.unstack(begin)
    h, w, _ = tf.unstack(size)
    im = tf.io.decode_and_crop_jpeg(raw, tf.stack([y, x, h, w]), channels=3)
    im = tf.image.random_flip_left_right(tf.image.resize(im, (CROP, CROP)))
    return tf.ensure_shape(im, (CROP, CROP, 3)), label


def scale(im, label):
    return im / 127.5 - 1., label


def reader(names, stages):
    ds = tf.data.TFRecordDataset(names, num_parallel_reads=2).shuffle(256)
    for stage in stages:
        ds = ds.map(stage)
    return ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


# ---------------------------------------------------------------- model
def net():
    inp = layers.Input((CROP, CROP, 3))
    h = layers.Conv2D(16, 5, strides=4, activation='relu', padding='same')(inp)
    h = layers.Conv2D(32, 3, strides=2, activation='relu', padding='same')(h)
    h = layers.GlobalAveragePooling2D()(h)
    return keras.Model(inp, layers.Dense(NUM_SPECIES)(h))


if __name__ == '__main__':
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        names = export(folder, 3840)
        model = net()
        model.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
        t0 = time.time()
        model.fit(reader(names, [unpack, crop, scale]), epochs=1, verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))
