"""Sleep staging from nightly EEG features, trainer with its own loop."""
from typing import Dict

import numpy as np
import tensorflow as tf

EPOCHS_PER_NIGHT = 240
FEATURES = 48
STAGES = 5

cfg: Dict[str, float] = dict(batch=64, steps=3000, log_every=200, lr=1e-3, clip=1.0, debug=False)


def nights(n=1500):
    rng = np.random.default_rng(23)
    x = rng.standard_normal((n, EPOCHS_PER_NIGHT, FEATURES), dtype=np.float32)
    y = np.abs(x[..., :STAGES]).argmax(-1).astype(np.int32)
    return x, y


class Stager(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.proj = tf.keras.layers.Dense(96, activation="relu")
        self.rnn = tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(
            96, activation="tanh", recurrent_activation="sigmoid",
            recurrent_dropout=0.0, unroll=False, use_bias=True, return_sequences=True))
        self.drop = tf.keras.layers.Dropout(0.3)
        self.head = tf.keras.layers.Dense(STAGES)

    def call(self, x, training=False):
        h = self.rnn(self.proj(x), training=training)
        return self.head(self.drop(h, training=training))


class Trainer:
    def __init__(self, model, cfg):
        self.model, self.cfg = model, cfg
        model(tf.zeros((1, EPOCHS_PER_NIGHT, FEATURES)))
        self.opt = tf.keras.optimizers.Adam(cfg["lr"], global_clipnorm=cfg["clip"])
        self.opt.build(model.trainable_variables)
        self.mean = tf.keras.metrics.Mean()
        self.step_fn = self._step if cfg["debug"] else tf.function(self._step)

    def _step(self, x, y):
        with tf.GradientTape() as tape:
            logits = self.model(x, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        self.mean.update_state(loss)

    def run(self, ds):
        history = []
        for step, (x, y) in enumerate(ds, 1):
            self.step_fn(x, y)
            if step % self.cfg["log_every"] == 0:
                history.append(self.mean.result().numpy())
                self.mean.reset_state()
                print(f"{step:5d} {history[-1]:.4f}")
        return history


if __name__ == "__main__":
    x, y = nights()
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x)).repeat()
    ds = ds.batch(cfg["batch"], drop_remainder=True).take(cfg["steps"])
    Trainer(Stager(), cfg).run(ds.prefetch(tf.data.AUTOTUNE))
