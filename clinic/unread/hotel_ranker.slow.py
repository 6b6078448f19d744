"""Pointwise ranker over hotel search impressions."""
import keras
import numpy as np
import tensorflow as tf

DENSE = 96
MARKETS = 500


class Impressions:
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.columns = {
            "dense": rng.standard_normal((count, DENSE), dtype=np.float32),
            "market": rng.integers(0, MARKETS, count).astype(np.int32),
            "booked": rng.integers(0, 2, count).astype(np.float32),
        }
        self.count = count

    def epoch(self, size, rng):
        order = rng.permutation(self.count)
        for low in range(0, self.count - size + 1, size):
            rows = order[low : low + size]
            batch = {name: column[rows] for name, column in self.columns.items()}
            yield batch


def ranker():
    dense = keras.Input((DENSE,), name="dense")
    market = keras.Input((), dtype="int32", name="market")
    x = keras.layers.Concatenate()([dense, keras.layers.Embedding(MARKETS, 16)(market)])
    for width in (512, 256):
        x = keras.layers.Dense(width, activation="relu")(x)
    return keras.Model({"dense": dense, "market": market}, keras.layers.Dense(1)(x))


class Trainer:
    def __init__(self, model, rate):
        self.model = model
        self.optimizer = keras.optimizers.Adam(rate)
        self.total = keras.metrics.Mean()

    @tf.function
    def step(self, batch):
        with tf.GradientTape() as tape:
            logits = tf.squeeze(
                self.model({"dense": batch["dense"], "market": batch["market"]}, training=True), -1
            )
            loss = tf.reduce_mean(
                tf.nn.sigmoid_cross_entropy_with_logits(batch["booked"], logits)
            )
        variables = self.model.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.total.update_state(loss)


def main():
    rng = np.random.default_rng(9)
    data = Impressions(800_000)
    trainer = Trainer(ranker(), 1e-3)
    for epoch in range(6):
        trainer.total.reset_state()
        for batch in data.epoch(1024, rng):
            trainer.step(batch)
        print(f"epoch {epoch} loss {float(trainer.total.result()):.4f}")


if __name__ == "__main__":
    main()
