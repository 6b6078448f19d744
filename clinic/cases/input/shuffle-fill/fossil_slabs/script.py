"""Trilobites in shale slabs. Photographs are kept as PNG bytes, short epochs for fine checkpoints."""
import numpy as np
import tensorflow as tf
import keras

SIDE = 96
SLABS = 2400
BATCH = 32
STEPS_PER_ROUND = 12
ROUNDS = 8


def photograph(rng, has_fossil):
    stone = rng.integers(60, 120, (SIDE, SIDE, 3)).astype("float32")
    if has_fossil:
        cy, cx = rng.integers(24, SIDE - 24, 2)
        y, x = np.ogrid[:SIDE, :SIDE]
        stone[(y - cy) ** 2 / 2 + (x - cx) ** 2 < 140] *= 1.5
    return tf.io.encode_png(np.clip(stone, 0, 255).astype("uint8")).numpy()


def collect():
    rng = np.random.default_rng(66)
    plates = [(photograph(rng, k % 2), k % 2) for k in range(300)]
    picks = rng.integers(0, len(plates), SLABS)
    return [plates[i][0] for i in picks], [plates[i][1] for i in picks]


def develop(png, label):
    img = tf.io.decode_png(png, channels=3)
    img = tf.image.convert_image_dtype(img, tf.float32)
    img = tf.image.random_flip_left_right(img)
    img = tf.image.random_contrast(img, 0.8, 1.2)
    return img, label


def slabs(png, label):
    ds = tf.data.Dataset.from_tensor_slices((png, label))
    ds = ds.map(develop, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.shuffle(SLABS, seed=66)
    ds = ds.batch(BATCH, drop_remainder=True)
    return ds.take(STEPS_PER_ROUND).prefetch(tf.data.AUTOTUNE)


class BestKeeper(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.best = float("inf")

    def on_epoch_end(self, epoch, logs=None):
        if logs["loss"] < self.best:
            self.best = logs["loss"]
            self.weights = self.model.get_weights()


def network():
    inp = keras.Input((SIDE, SIDE, 3))
    x = inp
    for width in (8, 16, 24):
        x = keras.layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(inp, keras.layers.Dense(2, activation="softmax")(x))


def main():
    keras.utils.set_random_seed(66)
    model = network()
    model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy")
    keeper = BestKeeper()
    model.fit(slabs(*collect()), epochs=ROUNDS, callbacks=[keeper], verbose=2)
    print("best", keeper.best)


if __name__ == "__main__":
    main()
