"""Rain within six hours from radio soundings: a folder with one CSV file for each ascent of a balloon."""
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

COLUMNS = ["height", "pressure", "temperature", "dew_point", "wind_u", "wind_v", "rain"]
ASCENTS, LEVELS, BATCH, EPOCHS = 2400, 12, 128, 9


def ascend(folder):
    rng = np.random.default_rng(11)
    for number in range(ASCENTS):
        rows = rng.normal(0, 1, (LEVELS, len(COLUMNS)))
        rows[:, 0] = np.linspace(0, 1, LEVELS)
        rows[:, -1] = rows[:, 3] - rows[:, 2] + 0.3 * rows[:, 4] > 0
        with open(f"{folder}/ascent_{number:05d}.csv", "w") as file:
            file.write(",".join(COLUMNS) + "\n")
            np.savetxt(file, rows, fmt="%.4f", delimiter=",")


def levels(folder):
    files = sorted(os.path.join(folder, name) for name in os.listdir(folder))

    def rows_of(file):
        return tf.data.TextLineDataset(file).skip(1)

    def parse(lines):
        columns = tf.io.decode_csv(lines, [[0.0]] * len(COLUMNS))
        return tf.stack(columns[:-1], axis=-1), columns[-1]

    data = tf.data.Dataset.from_tensor_slices(files)
    data = data.interleave(rows_of, cycle_length=4, num_parallel_calls=tf.data.AUTOTUNE)
    data = data.shuffle(4096, seed=2).batch(BATCH, drop_remainder=True)
    return data.map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


with tempfile.TemporaryDirectory() as folder:
    ascend(folder)
    data = levels(folder)
    model = tf.keras.Sequential([
        tf.keras.layers.Input((len(COLUMNS) - 1,)),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(1, activation="sigmoid"),
    ])
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.fit(data, epochs=1, verbose=2)
    start = time.perf_counter()
    model.fit(data, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * (ASCENTS * LEVELS // BATCH * BATCH))
    print(f"TRAIN_SECONDS {time.perf_counter() - start:.3f}")
