"""Character CNN that tells regional dialects apart in chat messages."""
import pathlib
from dataclasses import dataclass, field

import keras
import numpy as np
import tensorflow as tf
from keras import layers


@dataclass
class Experiment:
    name: str = "dialect-charcnn"
    dialects: int = 14
    per_dialect: int = 5000
    length: int = 160
    alphabet: int = 96
    batch: int = 256
    epochs: int = 25
    widths: tuple = (3, 5, 7)
    resume: dict = field(default_factory=lambda: {"save_freq": 4, "delete_checkpoint": False})

    @property
    def root(self):
        path = pathlib.Path("runs") / self.name
        path.mkdir(parents=True, exist_ok=True)
        return path


def sample_messages(exp, count, seed):
    rng = np.random.default_rng(seed)
    freq = np.random.default_rng(99).dirichlet(np.full(exp.alphabet, 0.5), exp.dialects)
    text = np.concatenate([
        rng.choice(exp.alphabet, size=(count, exp.length), p=f).astype(np.uint8) for f in freq])
    label = np.repeat(np.arange(exp.dialects, dtype=np.int32), count)
    order = rng.permutation(len(label))
    return text[order], label[order]


def to_dataset(exp, arrays, training=False):
    ds = tf.data.Dataset.from_tensor_slices(arrays)
    if training:
        ds = ds.shuffle(10000)
    return ds.batch(exp.batch).prefetch(tf.data.AUTOTUNE)


def char_cnn(exp):
    chars = keras.Input((exp.length,), dtype="uint8")
    x = layers.Embedding(exp.alphabet, 64)(chars)
    x = layers.SpatialDropout1D(0.1)(x)
    towers = []
    for w in exp.widths:
        t = layers.Conv1D(256, w, padding="same", activation="relu")(x)
        t = layers.Conv1D(256, w, padding="same", activation="relu")(t)
        towers.append(layers.GlobalMaxPooling1D()(t))
    h = layers.Concatenate()(towers)
    h = layers.Dense(1024, activation="relu")(h)
    h = layers.Dropout(0.3)(h)
    return keras.Model(chars, layers.Dense(exp.dialects)(h), name="char_cnn")


class Trainer:
    def __init__(self, exp):
        self.exp = exp
        self.model = char_cnn(exp)
        self.model.compile(
            optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"])

    def hooks(self):
        root = self.exp.root
        yield keras.callbacks.BackupAndRestore(str(root / "resume"), **self.exp.resume)
        yield keras.callbacks.CSVLogger(str(root / "log.csv"))
        yield keras.callbacks.ReduceLROnPlateau(patience=3, factor=0.5)

    def run(self):
        train = to_dataset(self.exp, sample_messages(self.exp, self.exp.per_dialect, 0), True)
        valid = to_dataset(self.exp, sample_messages(self.exp, 300, 1))
        self.model.fit(train, validation_data=valid, epochs=self.exp.epochs,
                       callbacks=list(self.hooks()), verbose=2)
        self.model.save(self.exp.root / "final.keras")
        return self.model.evaluate(valid, return_dict=True, verbose=0)


if __name__ == "__main__":
    keras.utils.set_random_seed(1)
    print(Trainer(Experiment()).run())
