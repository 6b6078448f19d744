import os
import shutil
import tempfile
import time

import numpy as np
import tensorflow as tf

tf.random.set_seed(17)
np.random.seed(17)
tf.keras.utils.set_random_seed(17)

RATE = 50
WINDOW = RATE * 60
root = tempfile.mkdtemp()


def write_night(path, windows):
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP", compression_level=1)) as w:
        for _ in range(windows):
            label = np.random.randint(0, 2)
            t = np.arange(WINDOW) / RATE
            flow = np.sin(2 * np.pi * 0.25 * t) * (1 - 0.7 * label * (t > 30))
            flow += np.random.randn(WINDOW) * 0.2
            feats = {
                "flow": tf.train.Feature(float_list=tf.train.FloatList(value=flow)),
                "apnea": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
            }
            w.write(tf.train.Example(features=tf.train.Features(feature=feats)).SerializeToString())


def to_features(example):
    parsed = tf.io.parse_single_example(example, {
        "flow": tf.io.FixedLenFeature([WINDOW], tf.float32),
        "apnea": tf.io.FixedLenFeature([], tf.int64),
    })
    flow = parsed["flow"]
    flow = (flow - tf.reduce_mean(flow)) / (tf.math.reduce_std(flow) + 1e-6)
    spec = tf.abs(tf.signal.stft(flow, 128, 16, 256))
    mel = tf.signal.linear_to_mel_weight_matrix(32, 129, RATE, 0.1, 24.0)
    spec = tf.math.log(tf.matmul(spec, mel) + 1e-3)
    return spec[::4], parsed["apnea"]


files = [os.path.join(root, "night%d.tfrec" % i) for i in range(4)]
for f in files:
    write_night(f, 80)

ds = tf.data.TFRecordDataset(files, compression_type="GZIP")
ds = ds.map(to_features, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.shuffle(320, seed=17).batch(32).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Conv1D(24, 5, activation="relu"),
    tf.keras.layers.MaxPooling1D(3),
    tf.keras.layers.GRU(12),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
tic = time.time()
model.fit(ds, epochs=12, verbose=2)
print("toc", time.time() - tic)
shutil.rmtree(root)
