"""Two-tower match of readers and titles from the loan book."""
import numpy as np
import tensorflow as tf
import keras

READERS, TITLES, DIM = 120_000, 60_000, 32


def loan_book(count):
    rng = np.random.default_rng(23)
    reader = rng.integers(0, READERS, count).astype("int32")
    title = rng.integers(0, TITLES, count).astype("int32")
    renewed = ((reader % 7 + title % 5) > 5).astype("float32")
    return {"reader": reader, "title": title}, renewed


class Towers(keras.Model):
    def __init__(self):
        super().__init__()
        self.shelf = {
            "reader": keras.layers.Embedding(READERS, DIM),
            "title": keras.layers.Embedding(TITLES, DIM),
        }
        self.reader_shelf, self.title_shelf = self.shelf["reader"], self.shelf["title"]
        self.project = keras.layers.Dense(DIM, activation="tanh")

    def call(self, loan):
        left = self.project(self.reader_shelf(loan["reader"]))
        right = self.project(self.title_shelf(loan["title"]))
        return tf.reduce_sum(left * right, axis=-1)


def main():
    keras.utils.set_random_seed(23)
    loans, renewed = loan_book(25_600)
    ds = (tf.data.Dataset.from_tensor_slices((loans, renewed))
          .batch(256).cache().prefetch(tf.data.AUTOTUNE))
    model = Towers()
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
    model.fit(ds, epochs=2, verbose=0)
    print(model.count_params())


if __name__ == "__main__":
    main()
