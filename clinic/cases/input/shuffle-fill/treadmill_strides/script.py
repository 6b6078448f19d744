"""Four gaits from a hip-worn accelerometer.  Records of 200 samples, random 128-sample cuts.

An "epoch" here is a fresh random draw out of the whole corpus, 30 batches long,
so that the learning-rate schedule and the printed line come at a handy pace.
"""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf
import keras

GAITS = ("walk", "jog", "run", "limp")
N_RECORDS = 30000
RAW, CUT = 200, 128
BATCH = 64
EPOCHS = 20
STEPS = 30


def write_corpus(path, seed=13):
    rng = np.random.default_rng(seed)
    t = np.arange(RAW, dtype=np.float32) / 50.0
    with tf.io.TFRecordWriter(path) as out:
        for _ in range(N_RECORDS // 500):
            gait = rng.integers(0, len(GAITS), 500)
            cadence = (1.6 + 0.5 * np.minimum(gait, 2) + rng.normal(0, 0.1, 500))[:, None]
            phase = 2 * np.pi * (cadence * t + rng.random((500, 1)))
            lame = 0.5 * (gait == 3)[:, None] * np.sin(phase / 2)
            traces = np.stack([np.sin(phase) + lame, np.cos(2 * phase), 0.3 * np.sin(phase + 1)], -1)
            traces += 0.4 * rng.standard_normal(traces.shape)
            for trace, g in zip(traces.astype(np.float32), gait):
                feature = {
                    "trace": tf.train.Feature(bytes_list=tf.train.BytesList(value=[trace.tobytes()])),
                    "gait": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(g)])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=feature))
                out.write(example.SerializeToString())


def parse(record):
    fields = tf.io.parse_single_example(record, {
        "trace": tf.io.FixedLenFeature([], tf.string),
        "gait": tf.io.FixedLenFeature([], tf.int64),
    })
    trace = tf.reshape(tf.io.decode_raw(fields["trace"], tf.float32), [RAW, 3])
    start = tf.random.uniform([], 0, RAW - CUT, dtype=tf.int32)
    cut = tf.slice(trace, tf.stack([start, 0]), [CUT, 3])
    return cut, fields["gait"]


def corpus(path):
    return (tf.data.TFRecordDataset(path)
            .map(parse, num_parallel_calls=tf.data.AUTOTUNE)
            .shuffle(N_RECORDS)
            .batch(BATCH, drop_remainder=True)
            .prefetch(tf.data.AUTOTUNE))


def build():
    return keras.Sequential([
        keras.Input((CUT, 3)),
        keras.layers.Conv1D(16, 9, strides=2, activation="relu"),
        keras.layers.Conv1D(32, 5, strides=2, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(len(GAITS)),
    ])


keras.utils.set_random_seed(13)
model = build()
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
accuracy = keras.metrics.SparseCategoricalAccuracy()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    accuracy.update_state(y, logits)
    return loss


def main():
    path = os.path.join(tempfile.mkdtemp(prefix="strides_"), "corpus.tfrecord")
    write_corpus(path)
    train = corpus(path)

    clock = time.perf_counter()
    for epoch in range(EPOCHS):
        optimizer.learning_rate = 0.05 * 0.9 ** epoch
        accuracy.reset_state()
        for x, y in train.take(STEPS):
            loss = train_step(x, y)
        print(f"{epoch:2d}  loss {float(loss):.3f}  accuracy {float(accuracy.result()):.3f}")
    print(f"TRAIN_SECONDS {time.perf_counter() - clock:.2f}")


if __name__ == "__main__":
    main()
