"""Seabed segmentation from sonar strips; batches come from a PyDataset."""
import math

import keras
import numpy as np
from keras import layers


class Strips(keras.utils.PyDataset):
    def __init__(self, strips, masks, batch):
        super().__init__()
        self.strips, self.masks, self.batch = strips, masks, batch
        self.order = np.arange(len(strips))

    def __len__(self):
        return math.ceil(len(self.strips) / self.batch)

    def __getitem__(self, i):
        pick = self.order[i * self.batch : (i + 1) * self.batch]
        return self.strips[pick], self.masks[pick]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


def survey(n=320, side=64):
    rng = np.random.default_rng(90)
    coarse = rng.random((n, side // 8, side // 8, 1)).repeat(8, 1).repeat(8, 2)
    strips = coarse + rng.normal(0, 0.2, (n, side, side, 1))
    return strips.astype("float32"), (coarse > 0.5).astype("float32")


def unet(side=64, base=24):
    x = inp = keras.Input((side, side, 1))
    skips = []
    for k in range(3):
        x = layers.Conv2D(base << k, 3, padding="same", activation="relu")(x)
        x = layers.Conv2D(base << k, 3, padding="same", activation="relu")(x)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(base << 3, 3, padding="same", activation="relu")(x)
    for k, skip in reversed(list(enumerate(skips))):
        x = layers.UpSampling2D()(x)
        x = layers.Concatenate()([x, skip])
        x = layers.Conv2D(base << k, 3, padding="same", activation="relu")(x)
    return keras.Model(inp, layers.Conv2D(1, 1, activation="sigmoid")(x))


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    model = unet()
    model.compile(optimizer="adam", loss="binary_crossentropy")
    run = model.fit(Strips(*survey(), batch=8), epochs=2, verbose=2)
    print("loss", run.history["loss"][-1])
