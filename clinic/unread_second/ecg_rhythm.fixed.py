"""Arrhythmia detection on single-lead ECG, recurrent baseline from the 2018 paper."""
import numpy as np
import tensorflow as tf
import tensorflow.keras as K

params = {
    "fs": 125,
    "seconds": 6,
    "units": 128,
    "layers": 2,
    "classes": 4,
    "batch_size": 128,
    "epochs": 8,
    "clip": 1.0,
}


def simulate(n, p, seed):
    rng = np.random.default_rng(seed)
    T = p["fs"] * p["seconds"]
    t = np.arange(T) / p["fs"]
    y = rng.integers(0, p["classes"], n)
    rate = 0.9 + 0.3 * y + 0.05 * rng.standard_normal(n)
    phase = (t[None] * rate[:, None] + rng.random((n, 1))) % 1.0
    x = np.exp(-((phase - 0.4) / 0.02) ** 2) + 0.2 * np.exp(-((phase - 0.7) / 0.06) ** 2)
    x += 0.05 * rng.standard_normal(x.shape)
    return x[..., None].astype(np.float32), y.astype(np.int32)


def rhythm_net(p):
    sig = K.layers.Input(shape=(p["fs"] * p["seconds"], 1), name="lead_II")
    x = K.layers.Conv1D(32, 7, strides=2, padding="same", activation="relu")(sig)
    for k in range(p["layers"]):
        x = K.layers.GRU(
            p["units"],
            return_sequences=k < p["layers"] - 1,
            reset_after=True,
            kernel_initializer="he_uniform",
            name="gru_%d" % k,
        )(x)
        x = K.layers.Dropout(0.2)(x)
    x = K.layers.Dense(64, activation="relu")(x)
    return K.models.Model(sig, K.layers.Dense(p["classes"], activation="softmax")(x))


def as_dataset(xy, p, shuffle):
    ds = tf.data.Dataset.from_tensor_slices(xy)
    if shuffle:
        ds = ds.shuffle(len(xy[1]))
    return ds.batch(p["batch_size"], drop_remainder=shuffle).prefetch(tf.data.AUTOTUNE)


def main(p):
    K.utils.set_random_seed(7)
    train = as_dataset(simulate(12_000, p, 0), p, True)
    dev = as_dataset(simulate(1_500, p, 1), p, False)
    net = rhythm_net(p)
    net.summary()
    net.compile(
        optimizer=K.optimizers.Adam(learning_rate=1e-3, clipnorm=p["clip"]),
        loss="sparse_categorical_crossentropy",
        metrics=["sparse_categorical_accuracy"],
    )
    stop = K.callbacks.EarlyStopping(monitor="val_loss", patience=3, restore_best_weights=True)
    net.fit(train, validation_data=dev, epochs=p["epochs"], callbacks=[stop], verbose=2)


if __name__ == "__main__":
    main(params)
