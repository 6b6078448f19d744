import os
import shutil
import tempfile
import time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
import keras
from keras import layers

RATE, SECONDS, SPECIES = 16000, 2, 6


def record_clips(folder, n=420, seed=9):
    rng = np.random.default_rng(seed)
    t = np.arange(RATE * SECONDS) / RATE
    paths, labels = [], []
    for i in range(n):
        k = int(rng.integers(SPECIES))
        f = 900 + 500 * k + 120 * np.sin(2 * np.pi * (3 + k) * t)
        wav = 0.3 * np.sin(2 * np.pi * np.cumsum(f) / RATE) + 0.1 * rng.standard_normal(t.size, dtype=np.float32)
        p = os.path.join(folder, f"xc{i:05d}.raw")
        (wav * 20000).astype("<i2").tofile(p)
        paths.append(p)
        labels.append(k)
    return paths, labels


MEL = tf.signal.linear_to_mel_weight_matrix(48, 513, RATE, 200.0, 7500.0)


def load_clip(path, label):
    pcm = tf.cast(tf.io.decode_raw(tf.io.read_file(path), tf.int16), tf.float32) / 32768.0
    pcm = tf.ensure_shape(pcm, (RATE * SECONDS,))
    mag = tf.abs(tf.signal.stft(pcm, 1024, 160))
    logmel = tf.math.log(tf.matmul(mag, MEL) + 1e-5)
    pcen = logmel - tf.reduce_mean(logmel, axis=0, keepdims=True)
    return tf.reshape(pcen, (194, 48, 1)), label


def build_dataset(paths, labels):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(load_clip, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.shuffle(len(paths)).batch(30, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


class CallNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.convs = [layers.Conv2D(c, 3, strides=2, activation="relu") for c in (8, 16, 32)]
        self.pool = layers.GlobalAveragePooling2D()
        self.out = layers.Dense(SPECIES)

    def call(self, x):
        for c in self.convs:
            x = c(x)
        return self.out(self.pool(x))


def fit(net, ds, epochs):
    opt = keras.optimizers.Adam(3e-3)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, net(x)))
        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
        return loss

    clips = 0
    for epoch in range(epochs):
        mean = keras.metrics.Mean()
        for x, y in ds:
            mean.update_state(step(x, y))
            clips += x.shape[0]
        print("epoch", epoch, "xent %.4f" % float(mean.result()))
    return clips


folder = tempfile.mkdtemp(prefix="calls_")
try:
    dataset = build_dataset(*record_clips(folder))
    begin = time.perf_counter()
    done = fit(CallNet(), dataset, epochs=10)
    spent = time.perf_counter() - begin
finally:
    shutil.rmtree(folder)
print("WORK", done)
print("TRAIN_SECONDS %.3f" % spent)
