"""Precipitation nowcasting: a small U-Net over radar frames, streamed from TFRecord."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tempfile
import numpy as np
import tensorflow as tf

SIDE, HISTORY = 64, 4


def radar(folder, files=4, per_file=160):
    rng = np.random.default_rng(31)
    yy, xx = np.mgrid[0:SIDE, 0:SIDE]
    out = []
    for f in range(files):
        out.append(os.path.join(folder, f"radar-{f}.tfrecord"))
        with tf.io.TFRecordWriter(out[-1]) as w:
            for _ in range(per_file):
                cx, cy, vx, vy = rng.uniform(16, 48, 2).tolist() + rng.uniform(-4, 4, 2).tolist()
                fr = [200 * np.exp(-((xx - cx - vx * k) ** 2 + (yy - cy - vy * k) ** 2) / 80) for k in range(HISTORY + 1)]
                w.write(np.stack(fr, -1).astype(np.uint8).tobytes())
    return out


def parse(rec):
    v = tf.reshape(tf.io.decode_raw(rec, tf.uint8), [-1, SIDE, SIDE, HISTORY + 1])
    v = tf.cast(v, tf.float32) / 255.0
    return v[..., :HISTORY], v[..., HISTORY:]


def frames(paths):
    ds = tf.data.Dataset.from_tensor_slices(paths)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.batch(16, drop_remainder=True).map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.cache().shuffle(30).prefetch(tf.data.AUTOTUNE)


def conv(x, f):
    return tf.keras.layers.Conv2D(f, 3, padding="same", activation="relu")(x)


def unet():
    inp = tf.keras.Input((SIDE, SIDE, HISTORY))
    a = conv(inp, 16)
    b = conv(tf.keras.layers.MaxPooling2D()(a), 32)
    c = conv(tf.keras.layers.MaxPooling2D()(b), 48)
    u = tf.keras.layers.Concatenate()([tf.keras.layers.UpSampling2D()(c), b])
    u = conv(u, 32)
    u = tf.keras.layers.Concatenate()([tf.keras.layers.UpSampling2D()(u), a])
    return tf.keras.Model(inp, tf.keras.layers.Conv2D(1, 3, padding="same")(conv(u, 16)))


with tempfile.TemporaryDirectory() as d:
    net = unet()
    net.compile("adam", "mse")
    net.fit(frames(radar(d)), epochs=2, verbose=2)
