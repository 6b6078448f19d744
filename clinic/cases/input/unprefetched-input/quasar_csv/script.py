"""Photometric redshifts of quasars from survey tables kept as CSV."""
import os
import tempfile

import numpy as np
import tensorflow as tf
import keras

SEED = 11
N_ROWS, N_BANDS = 8000, 240
BATCH, EPOCHS = 200, 10
keras.utils.set_random_seed(SEED)


def write_survey(folder):
    rng = np.random.default_rng(SEED)
    flux = rng.gamma(2.0, 1.0, size=(N_ROWS, N_BANDS)).astype("float32")
    z = (flux[:, :10].mean(1) / (1 + flux[:, 20:30].mean(1))).astype("float32")
    path = os.path.join(folder, "survey.csv")
    with open(path, "w") as f:
        for row, target in zip(flux, z):
            f.write(",".join("%.5f" % v for v in row) + ",%.5f\n" % target)
    return path


def survey_tables(path):
    table = tf.data.experimental.CsvDataset(path, [tf.float32] * (N_BANDS + 1))
    table = table.batch(BATCH, drop_remainder=True)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.deterministic = True
    return table.with_options(options)


def build():
    bands = keras.Input((N_BANDS,))
    x = keras.layers.Reshape((N_BANDS // 4, 4))(bands)
    x = keras.layers.GRU(24)(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    return keras.Model(bands, keras.layers.Dense(1)(x))


def main():
    path = write_survey(tempfile.mkdtemp(prefix="qso"))
    model = build()
    optimizer = keras.optimizers.Adam(2e-3)
    optimizer.build(model.trainable_variables)
    table = survey_tables(path)

    @tf.function
    def step(*columns):
        x = tf.stack(columns[:-1], axis=1)
        z = columns[-1]
        with tf.GradientTape() as tape:
            pred = model(x, training=True)[:, 0]
            loss = tf.reduce_mean(tf.abs(pred - z))
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    for epoch in range(EPOCHS):
        loss = 0.0
        for row in table:
            loss = step(*row)
        print("epoch", epoch, "mae %.4f" % float(loss))


if __name__ == "__main__":
    main()
