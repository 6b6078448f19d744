"""Roof / no roof on aerial tiles. Trains in short rounds and adapts the positive weight after each of them."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

conf = {
    'data': {'tiles': 2200, 'side': 144, 'crop': 96, 'pool': 1500},
    'train': {'rounds': 6, 'steps': 20, 'batch': 16, 'lr': 1e-3},
}


def make_tiles(path, n, side, seed=23):
    rng = np.random.default_rng(seed)
    pool = []
    for k in range(96):
        im = rng.integers(60, 140, (side, side, 3))
        if k % 2:
            y, x = rng.integers(20, side - 70, 2)
            im[y:y + 50, x:x + 40] += np.array([70, 20, 10])
        pool.append((tf.io.encode_png(im.astype('uint8')).numpy(), k % 2))
    with tf.io.TFRecordWriter(path) as out:
        for _ in range(n):
            png, label = pool[int(rng.integers(len(pool)))]
            out.write(b'%d' % label + png)


class TileSource:
    def __init__(self, path, data, batch):
        self.path, self.data, self.batch = path, data, batch

    def decode(self, record):
        label = tf.strings.to_number(tf.strings.substr(record, 0, 1))
        im = tf.io.decode_png(tf.strings.substr(record, 1, 1 << 30), channels=3)
        im = tf.image.resize(im, (self.data['crop'],) * 2, antialias=True)
        return tf.image.per_image_standardization(im), label

    def open(self):
        ds = tf.data.TFRecordDataset(self.path)
        ds = ds.map(self.decode, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.shuffle(self.data['pool'])
        return ds.batch(self.batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class Trainer:
    def __init__(self, crop, lr):
        self.net = keras.Sequential([
            layers.Input((crop, crop, 3)),
            layers.Conv2D(12, 5, strides=4, activation='relu'),
            layers.Conv2D(24, 3, strides=2, activation='relu'),
            layers.GlobalMaxPooling2D(),
            layers.Dense(1)])
        self.opt = keras.optimizers.Adam(lr)
        self.opt.build(self.net.trainable_variables)
        self.pos = tf.Variable(1.)
        self.loss, self.recall = keras.metrics.Mean(), keras.metrics.Recall()

    @tf.function
    def step(self, x, y):
        with tf.GradientTape() as tape:
            logit = self.net(x, training=True)[:, 0]
            loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y, logit, self.pos))
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        self.loss.update_state(loss)
        self.recall.update_state(y, tf.sigmoid(logit))

    def round(self, batches):
        self.loss.reset_state()
        self.recall.reset_state()
        for x, y in batches:
            self.step(x, y)
        recall = float(self.recall.result())
        self.pos.assign(1. if recall > .8 else 1.5)
        return float(self.loss.result()), recall


def main(conf):
    keras.utils.set_random_seed(23)
    data, train = conf['data'], conf['train']
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'tiles.tfrecord')
        make_tiles(path, data['tiles'], data['side'])
        source = TileSource(path, data, train['batch']).open()
        trainer = Trainer(data['crop'], train['lr'])
        t0 = time.time()
        for r in range(train['rounds']):
            print('round %d  loss %.3f  recall %.2f' % ((r,) + trainer.round(source.take(train['steps']))))
        print('TRAIN_SECONDS %.2f' % (time.time() - t0))


main(conf)
