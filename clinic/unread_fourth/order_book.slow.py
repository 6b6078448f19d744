"""Three-way mid-price move prediction from ten levels of a limit order book."""
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

LOOKBACK = 100
HORIZON = 20
LEVELS = 40


def simulate_book(events, seed=0):
    rng = np.random.default_rng(seed)
    mid = 100 + np.cumsum(rng.normal(0, 0.002, events))
    steps = rng.exponential(0.01, (events, 20)).cumsum(axis=1)
    ask = mid[:, None] + steps[:, :10]
    bid = mid[:, None] - steps[:, 10:]
    size = rng.lognormal(3, 1, (events, 20))
    book = np.concatenate([ask - mid[:, None], mid[:, None] - bid, np.log(size)], axis=1)
    book = (book - book.mean(0)) / book.std(0)
    return book.astype(np.float32), mid.astype(np.float32)


def move_labels(mid, threshold=0.004):
    ahead = np.zeros_like(mid)
    ahead[:-HORIZON] = mid[HORIZON:] - mid[:-HORIZON]
    return (1 + (ahead > threshold) - (ahead < -threshold)).astype(np.int32)


@dataclass
class Session:
    book: np.ndarray
    moves: np.ndarray
    first: int
    last: int
    mix: bool = False

    def ends(self):
        return np.arange(self.first + LOOKBACK, self.last - HORIZON)

    def __call__(self):
        ends = self.ends()
        if self.mix:
            np.random.shuffle(ends)
        for end in ends:
            yield self.book[end - LOOKBACK:end], self.moves[end - 1]


def as_dataset(session, batch):
    spec = (
        tf.TensorSpec((LOOKBACK, LEVELS), tf.float32),
        tf.TensorSpec((), tf.int32),
    )
    ds = tf.data.Dataset.from_generator(session, output_signature=spec)
    return ds.batch(batch).prefetch(tf.data.AUTOTUNE)


class DeepBook(tf.keras.Model):
    def __init__(self, filters=32, units=64):
        super().__init__()
        self.convs = [
            tf.keras.layers.Conv1D(filters * m, 5, padding="causal", activation="relu")
            for m in (1, 2, 2)
        ]
        self.memory = tf.keras.layers.LSTM(units)
        self.drop = tf.keras.layers.Dropout(0.2)
        self.head = tf.keras.layers.Dense(3)

    def call(self, x, training=False):
        for conv in self.convs:
            x = conv(x)
        x = self.memory(x)
        return self.head(self.drop(x, training=training))


def main():
    tf.keras.utils.set_random_seed(4)
    book, mid = simulate_book(300_000)
    moves = move_labels(mid)

    cut = 260_000
    train = as_dataset(Session(book, moves, 0, cut, mix=True), 512)
    test = as_dataset(Session(book, moves, cut, len(mid)), 2048)

    model = DeepBook()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(5e-4),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    stop = tf.keras.callbacks.EarlyStopping("val_loss", patience=5, restore_best_weights=True)
    model.fit(train, validation_data=test, epochs=30, callbacks=[stop], verbose=2)
    model.save_weights("deepbook.weights.h5")


if __name__ == "__main__":
    main()
