"""Route parcels: which depot does a rendered address label belong to."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(8)
H, W, DEPOTS = 20, 120, 12
GLYPHS = np.random.default_rng(0).integers(0, 2, size=(96, 7, 5)).astype("uint8")


def render(address):
    canvas = np.zeros((H, W), "uint8")
    for pos, ch in enumerate(address):
        glyph = GLYPHS[ord(ch) - 32]
        row, col = divmod(pos, W // 6)
        for dy in range(7):
            for dx in range(5):
                canvas[row * 10 + dy, col * 6 + dx] = 255 * glyph[dy, dx]
    return canvas


def make_addresses(n):
    rng = np.random.default_rng(8)
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"))
    depot = rng.integers(0, DEPOTS, n)
    texts = ["".join(rng.choice(letters, 28)) + "%02d" % d for d in depot]
    return texts, depot.astype("int32")


class Parcels(keras.utils.PyDataset):
    def __init__(self, texts, depot, batch, **kw):
        super().__init__(**kw)
        self.texts, self.depot, self.batch = texts, depot, batch

    def __len__(self):
        return len(self.texts) // self.batch

    def __getitem__(self, k):
        part = slice(k * self.batch, (k + 1) * self.batch)
        images = np.stack([render(t) for t in self.texts[part]])
        return images[..., None].astype("float32") / 255.0, self.depot[part]


def network():
    image = keras.Input((H, W, 1))
    x = layers.Conv2D(8, 5, strides=2, activation="relu")(image)
    x = layers.Flatten()(x)
    x = layers.Dense(48, activation="relu")(x)
    return keras.Model(image, layers.Dense(DEPOTS, activation="softmax")(x))


def main():
    texts, depot = make_addresses(64 * 55)
    model = network()
    model.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(Parcels(texts, depot, 64, workers=2), epochs=6, shuffle=False, verbose=2)


main()
