"""Item vectors from shopping baskets: predict whether two products go into one basket."""
import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import keras
import numpy as np
import tensorflow as tf
from keras import layers

ITEMS, DIM = 200_000, 32


def baskets(n, seed=0):
    r = np.random.default_rng(seed)
    a = (r.zipf(1.3, n) % ITEMS).astype("int32")
    near = (a + r.integers(1, 4, n)) % ITEMS
    far = r.integers(0, ITEMS, n)
    y = r.random(n) < 0.5
    return {"left": a, "right": np.where(y, near, far).astype("int32")}, y.astype("float32")


def two_tower():
    left = keras.Input((), dtype="int32", name="left")
    right = keras.Input((), dtype="int32", name="right")
    items = layers.Embedding(ITEMS, DIM, name="items")
    u, v = items(left), items(right)
    bias = layers.Dense(16, activation="relu")(layers.Multiply()([u, v]))
    return keras.Model({"left": left, "right": right}, layers.Dense(1, activation="sigmoid")(bias))


def optimiser(name, **extra):
    return keras.optimizers.get({"class_name": name, "config": {"learning_rate": 0.02, **extra}})


if __name__ == "__main__":
    data = tf.data.Dataset.from_tensor_slices(baskets(25_600)).cache().shuffle(25_600).batch(256).prefetch(4)
    net = two_tower()
    net.compile(optimiser("adam"), "binary_crossentropy")
    net.fit(data, epochs=2, verbose=2)
