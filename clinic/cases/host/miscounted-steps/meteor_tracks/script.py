"""Meteor or aeroplane: short video tracks, trained until the month's sky is used up."""
import numpy as np
import keras

SEED = 140


class Sky:
    def __init__(self, tracks):
        rng = np.random.default_rng(SEED)
        self.x = rng.normal(size=(tracks, 30, 4)).astype("float32")
        self.y = (self.x[:, :, 0].sum(1) > 0).astype("float32")

    def __len__(self):
        return len(self.x)

    def nights(self, batch):
        rng = np.random.default_rng(SEED)
        while True:
            order = rng.permutation(len(self.x))
            for k in range(0, len(order) - batch + 1, batch):
                pick = order[k:k + batch]
                yield self.x[pick], self.y[pick]


def classifier():
    m = keras.Sequential([
        keras.Input((30, 4)),
        keras.layers.Conv1D(24, 5, activation="relu"),
        keras.layers.Conv1D(24, 5, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ])
    m.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    return m


def main(batch=32, epochs=2):
    keras.utils.set_random_seed(SEED)
    sky = Sky(2048)
    model = classifier()
    model.fit(sky.nights(batch), steps_per_epoch=len(sky), epochs=epochs, verbose=2)


if __name__ == "__main__":
    main()
