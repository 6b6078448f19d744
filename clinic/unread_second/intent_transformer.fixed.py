"""Intent detection for a voice assistant, small transformer encoder."""
from dataclasses import dataclass, field
import time

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class TrainArgs:
    vocab: int = 8000
    seq_len: int = 48
    n_intents: int = 60
    d_model: int = 128
    heads: int = 4
    batch_size: int = 64
    epochs: int = 4
    eval_steps: int = 625
    lr: float = 5e-4
    sizes: dict = field(default_factory=lambda: {"train": 40_000, "dev": 10_000})


def synth_utterances(n, a, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, a.n_intents, n)
    x = rng.integers(100, a.vocab, (n, a.seq_len))
    x[:, 5] = y + 1
    return x.astype("int32"), y.astype("int32")


class AddPositions(keras.layers.Layer):
    def build(self, shape):
        self.pos = self.add_weight(shape=shape[1:], initializer="uniform", name="pos")

    def call(self, x):
        return x + self.pos


def encoder(a: TrainArgs):
    tok = keras.Input((a.seq_len,), dtype="int32")
    h = keras.layers.Embedding(a.vocab, a.d_model)(tok)
    h = AddPositions()(h)
    for _ in range(2):
        n = keras.layers.LayerNormalization()(h)
        h = h + keras.layers.MultiHeadAttention(a.heads, a.d_model // a.heads)(n, n)
        n = keras.layers.LayerNormalization()(h)
        n = keras.layers.Dense(4 * a.d_model, activation="gelu")(n)
        h = h + keras.layers.Dense(a.d_model)(n)
    h = keras.layers.GlobalAveragePooling1D()(h)
    return keras.Model(tok, keras.layers.Dense(a.n_intents)(h))


class Trainer:
    def __init__(self, model, args, train_ds, dev_ds):
        self.model, self.args = model, args
        self.train_ds, self.dev_ds = train_ds, dev_ds
        self.opt = keras.optimizers.AdamW(args.lr)
        self.opt.build(model.trainable_variables)
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.acc = keras.metrics.SparseCategoricalAccuracy()
        self.best = 0.0

    @tf.function
    def _train_step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(y, self.model(x, training=True))
        g = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(g, self.model.trainable_variables))
        return loss

    @tf.function
    def _eval_step(self, x, y):
        self.acc.update_state(y, self.model(x, training=False))

    def evaluate(self):
        self.acc.reset_state()
        for x, y in self.dev_ds:
            self._eval_step(x, y)
        return float(self.acc.result())

    def train(self):
        step, t0 = 0, time.time()
        for epoch in range(self.args.epochs):
            for x, y in self.train_ds:
                loss = self._train_step(x, y)
                step += 1
                if step % self.args.eval_steps == 0:
                    acc = self.evaluate()
                    self.best = max(self.best, acc)
                    print(f"[{time.time() - t0:7.1f}s] step {step} loss {float(loss):.3f} dev {acc:.4f}")
        print("best dev acc", self.best)


def main():
    a = TrainArgs()
    tr = tf.data.Dataset.from_tensor_slices(synth_utterances(a.sizes["train"], a, 0))
    dv = tf.data.Dataset.from_tensor_slices(synth_utterances(a.sizes["dev"], a, 1))
    tr = tr.shuffle(a.sizes["train"]).batch(a.batch_size, drop_remainder=True).prefetch(2)
    dv = dv.batch(256).prefetch(2)
    Trainer(encoder(a), a, tr, dv).train()


if __name__ == "__main__":
    main()
