import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

RATE = 16_000
HP = dict(frame=640, hop=80, fft=1024, mels=64, batch=16, epochs=11, clips=336, keywords=8)
FRAMES = 1 + (RATE - HP['frame']) // HP['hop']
MEL = tf.signal.linear_to_mel_weight_matrix(HP['mels'], HP['fft'] // 2 + 1, RATE, 60., 7600.)


def record_clips(path, hp, seed=17):
    """The recordings of the whole office, one archive."""
    rng = np.random.default_rng(seed)
    t = np.arange(RATE) / RATE
    with tf.io.TFRecordWriter(path) as out:
        for k in range(hp['clips']):
            word = k % hp['keywords']
            f0 = 180 * 2 ** (word / 3) * rng.uniform(.97, 1.03)
            tone = np.sin(2 * np.pi * f0 * t + 3 * np.sin(2 * np.pi * (2 + word) * t))
            wave = .4 * tone * np.exp(-4 * (t - rng.uniform(.3, .7)) ** 2) + rng.normal(0, .03, t.size)
            wav = tf.audio.encode_wav(wave[:, None].astype('float32').clip(-1, 1), RATE).numpy()
            ex = tf.train.Example(features=tf.train.Features(feature={
                'wav': tf.train.Feature(bytes_list=tf.train.BytesList(value=[wav])),
                'word': tf.train.Feature(int64_list=tf.train.Int64List(value=[word]))}))
            out.write(ex.SerializeToString())


def features(record):
    ex = tf.io.parse_single_example(record, {'wav': tf.io.FixedLenFeature([], tf.string),
                                             'word': tf.io.FixedLenFeature([], tf.int64)})
    wave, _ = tf.audio.decode_wav(ex['wav'], desired_channels=1, desired_samples=RATE)
    wave = wave[:, 0]
    wave = tf.concat([wave[:1], wave[1:] - .97 * wave[:-1]], 0)
    power = tf.square(tf.abs(tf.signal.stft(wave, HP['frame'], HP['hop'], HP['fft'])))
    logmel = tf.math.log(tf.matmul(power, MEL) + 1e-6)
    logmel -= tf.reduce_mean(logmel, 0, keepdims=True)
    return tf.ensure_shape(logmel[..., None], (FRAMES, HP['mels'], 1)), ex['word']


def spotter(hp):
    return keras.Sequential([
        layers.Input((FRAMES, hp['mels'], 1)),
        layers.Conv2D(8, (7, 5), strides=(4, 2), activation='relu', padding='same'),
        layers.Conv2D(16, 3, strides=2, activation='relu', padding='same'),
        layers.GlobalAveragePooling2D(),
        layers.Dense(hp['keywords'], activation='softmax')])


def train(hp):
    keras.utils.set_random_seed(4)
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'office.tfrecord')
        record_clips(path, hp)
        ds = tf.data.TFRecordDataset(path)
        ds = ds.map(features, num_parallel_calls=tf.data.AUTOTUNE).cache()
        ds = ds.shuffle(hp['clips'])
        ds = ds.batch(hp['batch'], drop_remainder=True).prefetch(tf.data.AUTOTUNE)
        model = spotter(hp)
        model.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'])
        begin = time.time()
        model.fit(ds, epochs=hp['epochs'], verbose=2)
        print('TRAIN_SECONDS %.2f' % (time.time() - begin))


if __name__ == '__main__':
    train(HP)
