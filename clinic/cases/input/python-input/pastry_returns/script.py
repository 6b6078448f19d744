"""Loaves that a shop will send back, from the orders in the database of a bakery."""
import json
import os
import sqlite3
import tempfile
import time

import numpy as np
import tensorflow as tf

PRODUCTS, ORDERS, BATCH, EPOCHS = 30, 8000, 64, 4


def fill(file):
    rng = np.random.default_rng(8)
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, shop INTEGER, weekday INTEGER, items TEXT, returned REAL)")
    for number in range(ORDERS):
        items = rng.poisson(4, PRODUCTS)
        shop, weekday = int(rng.integers(0, 50)), int(rng.integers(0, 7))
        returned = float(0.2 * items[:10].sum() + (weekday == 0) - 0.05 * shop + rng.normal(0, 0.5))
        row = (number, shop, weekday, json.dumps(items.tolist()), returned)
        db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", row)
    db.commit()
    db.close()


class Orders:
    def __init__(self, file):
        self.db = sqlite3.connect(file, check_same_thread=False)
        self.ids = [row[0] for row in self.db.execute("SELECT id FROM orders ORDER BY id")]

    def rows(self):
        for number in self.ids:
            query = "SELECT shop, weekday, items, returned FROM orders WHERE id = ?"
            shop, weekday, items, returned = self.db.execute(query, (number,)).fetchone()
            features = np.array([shop / 50, *(weekday == day for day in range(7)), *json.loads(items)], np.float32)
            yield features, np.float32(returned)


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "bakery.sqlite")
    fill(file)
    signature = (tf.TensorSpec((8 + PRODUCTS,), tf.float32), tf.TensorSpec((), tf.float32))
    orders = tf.data.Dataset.from_generator(Orders(file).rows, output_signature=signature)
    orders = orders.shuffle(2000, seed=3).batch(BATCH).prefetch(tf.data.AUTOTUNE)
    model = tf.keras.Sequential([
        tf.keras.layers.Input((8 + PRODUCTS,)),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(1),
    ])
    model.compile("adam", "mse")
    model.fit(orders, epochs=1, verbose=2)
    start = time.perf_counter()
    model.fit(orders, epochs=EPOCHS, verbose=2)
    print("WORK", EPOCHS * ORDERS)
    print(f"TRAIN_SECONDS {time.perf_counter() - start:.3f}")
