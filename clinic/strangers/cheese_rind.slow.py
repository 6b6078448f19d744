import numpy as np
import tensorflow as tf
import keras
from keras import layers


class RindSmoother(layers.Layer):
    """Weighs neighbouring depths of the rind into one value per depth."""

    def __init__(self, filters, reach, **kwargs):
        super().__init__(**kwargs)
        self.filters, self.reach = filters, reach

    def build(self, shape):
        self.kernel = self.add_weight(shape=(self.reach * shape[-1], self.filters), name="kernel")
        self.offset = self.add_weight(shape=(self.filters,), initializer="zeros", name="offset")

    def compute_output_shape(self, shape):
        return (shape[0], shape[1] - self.reach + 1, self.filters)

    def call(self, depths):
        rows = []
        for start in range(depths.shape[1] - self.reach + 1):
            piece = depths[:, start:start + self.reach, :]
            flat = tf.reshape(piece, (-1, self.kernel.shape[0]))
            rows.append(tf.nn.relu(tf.matmul(flat, self.kernel) + self.offset))
        return tf.stack(rows, axis=1)


def wheels(count, depth):
    rng = np.random.default_rng(88)
    scans = rng.normal(size=(count, depth, 4)).astype("float32")
    return scans, (scans[:, :10].mean(axis=(1, 2)) > 0).astype("float32")


def ripeness(depth):
    model = keras.Sequential([
        keras.Input((depth, 4)),
        RindSmoother(12, 5),
        layers.MaxPooling1D(2),
        layers.Flatten(),
        layers.Dense(1, activation="sigmoid"),
    ])
    model.compile(optimizer="adam", loss="binary_crossentropy", jit_compile=False)
    return model


def main():
    keras.utils.set_random_seed(88)
    scans, ripe = wheels(3200, 130)
    log = ripeness(130).fit(scans, ripe, batch_size=16, epochs=4, verbose=0)
    print("loss", log.history["loss"][-1])


if __name__ == "__main__":
    main()
