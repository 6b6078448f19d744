"""Next tile colour along a mosaic's spiral."""
import numpy as np
import tensorflow as tf
import keras

COLOURS = 12
PATH = 110


class SpiralCell(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units
        self.gate = keras.layers.Dense(units, activation="sigmoid")
        self.fresh = keras.layers.Dense(units, activation="tanh")

    def call(self, tile, state):
        both = tf.concat([tile, state], axis=-1)
        keep = self.gate(both)
        return keep * state + (1.0 - keep) * self.fresh(both)


class Spiral(keras.Model):
    def __init__(self, units=16):
        super().__init__()
        self.palette = keras.layers.Embedding(COLOURS, 8)
        self.cell = SpiralCell(units)
        self.out = keras.layers.Dense(COLOURS)

    def call(self, tiles):
        colours = self.palette(tiles)
        state = tf.zeros((tf.shape(tiles)[0], self.cell.units))
        for position in range(PATH):
            state = self.cell(colours[:, position], state)
        return self.out(state)


def spirals(count):
    rng = np.random.default_rng(31)
    tiles = rng.integers(0, COLOURS, (count, PATH)).astype("int32")
    return tiles, (tiles[:, -1] + tiles[:, -2]) % COLOURS


if __name__ == "__main__":
    keras.utils.set_random_seed(31)
    tiles, following = spirals(480)
    model = Spiral()
    model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(tiles, following, batch_size=8, epochs=1, verbose=2)
