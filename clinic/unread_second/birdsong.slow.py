"""Bird call classifier: wav clips -> log-mel -> small CNN."""
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

SR = 16000
SECONDS = 4
N_MELS = 64
SPECIES = ["wren", "robin", "great_tit", "blackbird", "swift"]

MEL = tf.signal.linear_to_mel_weight_matrix(N_MELS, 513, SR, 60.0, 7600.0)


def write_clips(root: pathlib.Path, per_class: int = 240) -> None:
    rng = np.random.default_rng(0)
    t = np.arange(SR * SECONDS) / SR
    for k, name in enumerate(SPECIES):
        (root / name).mkdir(parents=True)
        for i in range(per_class):
            f0 = 800 + 600 * k + rng.normal(0, 60)
            wave = 0.4 * np.sin(2 * np.pi * f0 * t * (1 + 0.02 * np.sin(6 * t)))
            wave += 0.05 * rng.standard_normal(t.shape)
            data = tf.audio.encode_wav(wave[:, None].astype("float32"), SR)
            tf.io.write_file(str(root / name / f"{i:04d}.wav"), data)


def load_logmel(path, label):
    wave, _ = tf.audio.decode_wav(tf.io.read_file(path), 1, SR * SECONDS)
    spec = tf.abs(tf.signal.stft(wave[:, 0], 1024, 160, 1024))
    mel = tf.matmul(tf.square(spec), MEL)
    logmel = tf.math.log(mel + 1e-6)
    logmel = (logmel - tf.reduce_mean(logmel)) / (tf.math.reduce_std(logmel) + 1e-5)
    return logmel[..., tf.newaxis], label


def dataset(paths, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((paths, labels))
    ds = ds.map(load_logmel, num_parallel_calls=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(256)
    return ds.batch(32).prefetch(tf.data.AUTOTUNE)


def cnn():
    L = tf.keras.layers
    net = tf.keras.Sequential([tf.keras.Input((394, N_MELS, 1))])
    for ch in (16, 32, 48):
        net.add(L.Conv2D(ch, 3, strides=2, padding="same", use_bias=False))
        net.add(L.BatchNormalization())
        net.add(L.ReLU())
    net.add(L.GlobalAveragePooling2D())
    net.add(L.Dropout(0.2))
    net.add(L.Dense(len(SPECIES)))
    return net


with tempfile.TemporaryDirectory() as tmp:
    root = pathlib.Path(tmp)
    write_clips(root)
    files = sorted(str(p) for p in root.glob("*/*.wav"))
    np.random.default_rng(1).shuffle(files)
    y = np.array([SPECIES.index(pathlib.Path(f).parent.name) for f in files], "int32")
    n_val = len(files) // 8
    train_ds = dataset(files[n_val:], y[n_val:], True)
    val_ds = dataset(files[:n_val], y[:n_val], False)

    model = cnn()
    model.compile(
        optimizer="adam",
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    hist = model.fit(train_ds, validation_data=val_ds, epochs=60, verbose=2)
    print("best val acc", max(hist.history["val_accuracy"]))
