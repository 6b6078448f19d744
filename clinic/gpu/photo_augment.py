"""A PyDataset that augments in NumPy, one sample after the other."""
import numpy as np
import keras


class Photos(keras.utils.PyDataset):
    def __init__(self, count=4000, batch=64):
        super().__init__()
        self.x = np.random.default_rng(0).random((count, 96, 96, 3), dtype="float32")
        self.y = np.random.default_rng(1).integers(0, 5, count)
        self.batch = batch

    def __len__(self):
        return len(self.x) // self.batch

    def augment(self, picture):
        picture = np.rot90(picture, np.random.randint(4))
        picture = np.clip(picture * np.random.uniform(0.8, 1.2) + np.random.uniform(-0.1, 0.1), 0, 1)
        return np.roll(picture, np.random.randint(8), axis=1)

    def __getitem__(self, index):
        at = slice(index * self.batch, (index + 1) * self.batch)
        return np.stack([self.augment(p) for p in self.x[at]]), self.y[at]


inputs = keras.layers.Input((96, 96, 3))
h = inputs
for filters in (32, 64, 128):
    h = keras.layers.Conv2D(filters, 3, strides=2, padding="same", activation="relu")(h)
    h = keras.layers.BatchNormalization()(h)
outputs = keras.layers.Dense(5)(keras.layers.GlobalAveragePooling2D()(h))
model = keras.Model(inputs, outputs)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(Photos(), epochs=8, verbose=2)
