"""Metric learning on short spectrogram clips: subclassed model with own train_step, two-phase LR."""
import numpy as np
import keras
import tensorflow as tf


def clips(n, classes, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    proto = rng.normal(size=(classes, 24, 16)).astype("float32")
    x = proto[y] + 0.8 * rng.normal(size=(n, 24, 16)).astype("float32")
    return x, y.astype("int32")


class Block(keras.layers.Layer):
    def __init__(self, filters):
        super().__init__()
        self.a = keras.layers.Conv1D(filters, 3, padding="same")
        self.norm = keras.layers.LayerNormalization()
        self.b = keras.layers.Conv1D(filters, 3, padding="same")

    def call(self, x):
        h = keras.activations.gelu(self.norm(self.a(x)))
        return x + self.b(h)


class ClipEmbedder(keras.Model):
    def __init__(self, dim=32, temperature=0.1):
        super().__init__()
        self.stem = keras.layers.Conv1D(24, 3, padding="same")
        self.blocks = [Block(24) for _ in range(4)]
        self.pool = keras.layers.GlobalAveragePooling1D()
        self.head = keras.layers.Dense(dim)
        self.temperature = temperature
        self.loss_avg = keras.metrics.Mean(name="loss")

    def call(self, x, training=False):
        h = self.stem(x)
        for b in self.blocks:
            h = b(h)
        return tf.math.l2_normalize(self.head(self.pool(h)), axis=-1)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            z = self(x, training=True)
            sim = tf.matmul(z, z, transpose_b=True) / self.temperature
            sim -= 1e9 * tf.eye(tf.shape(z)[0])
            same = tf.cast(y[:, None] == y[None, :], tf.float32) - tf.eye(tf.shape(z)[0])
            logp = sim - tf.reduce_logsumexp(sim, axis=1, keepdims=True)
            per = tf.reduce_sum(same * logp, 1) / tf.maximum(tf.reduce_sum(same, 1), 1.0)
            loss = -tf.reduce_mean(per)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_avg.update_state(loss)
        return {"loss": self.loss_avg.result()}


def run_phase(model, ds, name, lr, steps):
    model.optimizer.learning_rate = lr
    model.loss_avg.reset_state()
    step_fn = model.train_step
    for data in ds.take(steps):
        logs = step_fn(data)
    print(name, "loss", float(logs["loss"]))


def main():
    x, y = clips(3000, 12, 1)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(3000, seed=0).repeat().batch(32).prefetch(tf.data.AUTOTUNE)
    model = ClipEmbedder()
    model(x[:2])
    model.compile(optimizer=keras.optimizers.AdamW(1e-3))
    model.optimizer.build(model.trainable_variables)
    run_phase(model, ds, "warm", 3e-4, 30)
    run_phase(model, ds, "main", 1e-3, 40)


if __name__ == "__main__":
    main()
