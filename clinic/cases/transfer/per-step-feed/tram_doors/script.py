"""Door faults on a tram fleet.  Readings come from the depot's CSV export."""
import csv
import random
import tempfile
import time

import numpy as np
import tensorflow as tf

COLUMNS = 256
BATCH = 200


def export_csv(path, rows):
    rng = np.random.default_rng(2)
    block = rng.normal(size=(rows, COLUMNS)).round(3)
    fault = (block[:, :5].sum(axis=1) > 1.0).astype(int)
    with open(path, "w", newline="") as handle:
        writer = csv.writer(handle)
        for values, f in zip(block.tolist(), fault.tolist()):
            writer.writerow(values + [f])


def read_csv(path):
    readings, faults = [], []
    with open(path, newline="") as handle:
        for row in csv.reader(handle):
            readings.append([float(v) for v in row[:-1]])
            faults.append(float(row[-1]))
    return readings, faults


def make_network():
    inputs = tf.keras.Input((COLUMNS,))
    x = tf.keras.layers.Dense(128, activation="relu")(inputs)
    x = tf.keras.layers.Dense(64, activation="relu")(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(x))


network = make_network()
optimizer = tf.keras.optimizers.RMSprop(1e-3)
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)


@tf.function
def update(x, y):
    with tf.GradientTape() as tape:
        loss = bce(y[:, None], network(x, training=True))
    grads = tape.gradient(loss, network.trainable_variables)
    optimizer.apply_gradients(zip(grads, network.trainable_variables))
    return loss


def main(epochs=22):
    with tempfile.NamedTemporaryFile(suffix=".csv") as export:
        export_csv(export.name, 8000)
        readings, faults = read_csv(export.name)
    batches = [slice(i, i + BATCH) for i in range(0, len(readings), BATCH)]
    shuffler = random.Random(7)
    for epoch in range(epochs):
        shuffler.shuffle(batches)
        begin, losses = time.time(), []
        for b in batches:
            x = tf.convert_to_tensor(readings[b], dtype=tf.float32)
            y = tf.convert_to_tensor(faults[b], dtype=tf.float32)
            losses.append(update(x, y))
        print(f"epoch {epoch}: {float(tf.add_n(losses)) / len(losses):.4f}  {time.time() - begin:.2f} s")


main()
