"""Age at death from parish registers: the copies are CSV files with a heading."""
import glob
import os
import tempfile
import time

import numpy as np
import tensorflow as tf

COLS = 8
PAGES, ROWS_PER_PAGE = 9000, 1


def copy_registers(folder):
    g = np.random.default_rng(33)
    w = g.normal(size=COLS)
    for p in range(PAGES):
        rows = g.normal(size=(ROWS_PER_PAGE, COLS))
        age = 50 + 6 * rows @ w + g.normal(0, 3, ROWS_PER_PAGE)
        lines = [",".join(f"{v:.4f}" for v in (*r, a)) for r, a in zip(rows, age)]
        with open(os.path.join(folder, f"page{p:05d}.csv"), "w") as f:
            f.write("a,b,c,d,e,f,g,h,age\n" + "\n".join(lines) + "\n")


def columns(lines):
    fields = tf.stack(tf.io.decode_csv(lines, [0.0] * (COLS + 1)), axis=1)
    return fields[:, :-1], fields[:, -1:] / 50.0


with tempfile.TemporaryDirectory() as tmp:
    copy_registers(tmp)
    pages = sorted(glob.glob(os.path.join(tmp, "*.csv")))
    registers = (tf.data.Dataset.from_tensor_slices(pages)
                 .shuffle(len(pages), seed=2)
                 .flat_map(lambda page: tf.data.TextLineDataset(page).skip(1))
                 .batch(96)
                 .map(columns, num_parallel_calls=tf.data.AUTOTUNE)
                 .prefetch(tf.data.AUTOTUNE))
    tf.keras.utils.set_random_seed(33)
    a = tf.keras.Input((COLS,))
    h = tf.keras.layers.Dense(64, activation="tanh")(a)
    model = tf.keras.Model(a, tf.keras.layers.Dense(1)(h))
    model.compile(tf.keras.optimizers.RMSprop(1e-3), "mse")
    tic = time.time()
    model.fit(registers, epochs=4, verbose=2)
    print(f"read and fitted in {time.time() - tic:.2f} s")
