"""ICU deterioration score: hourly vitals exported in blocks of a thousand rows per hospital shard."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
from dataclasses import dataclass
import glob, tempfile
import numpy as np
import tensorflow as tf


@dataclass
class Config:
    rows_per_block: int = 1000
    blocks: int = 70
    batch: int = 200
    epochs: int = 2
    vitals: int = 18


class VitalsPipeline:
    def __init__(self, cfg, folder):
        self.cfg, self.folder = cfg, folder
        self.mean = tf.constant(np.linspace(30, 120, cfg.vitals), tf.float32)
        self.std = tf.constant(np.linspace(5, 20, cfg.vitals), tf.float32)

    def export(self):
        c, rng = self.cfg, np.random.default_rng(4)
        for b in range(c.blocks):
            z = rng.normal(size=(c.rows_per_block, c.vitals)).astype("float32")
            y = (z[:, 0] - z[:, 3] * z[:, 5] + 0.3 * rng.normal(size=len(z)) > 0.8).astype("float32")
            block = np.concatenate([z * self.std.numpy() + self.mean.numpy(), y[:, None]], 1)
            with open(os.path.join(self.folder, f"block-{b:04d}.bin"), "wb") as f:
                f.write(block.astype("float32").tobytes())

    def read(self, path):
        flat = tf.io.decode_raw(tf.io.read_file(path), tf.float32)
        return tf.reshape(flat, [self.cfg.rows_per_block, self.cfg.vitals + 1])

    def scale(self, row):
        x = (row[..., :-1] - self.mean) / self.std
        return tf.clip_by_value(x, -5.0, 5.0), row[..., -1:]

    def dataset(self):
        paths = sorted(glob.glob(os.path.join(self.folder, "*.bin")))
        ds = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths))
        ds = ds.map(self.read, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.unbatch()
        ds = ds.map(self.scale, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(self.cfg.batch)
        return ds.prefetch(tf.data.AUTOTUNE)


def train(cfg):
    model = tf.keras.Sequential([
        tf.keras.layers.Input((cfg.vitals,)),
        tf.keras.layers.Dense(128, "relu"),
        tf.keras.layers.Dense(64, "relu"),
        tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.Adam(2e-3)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(y, model(x, training=True)))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    with tempfile.TemporaryDirectory() as folder:
        pipe = VitalsPipeline(cfg, folder)
        pipe.export()
        ds = pipe.dataset()
        for epoch in range(cfg.epochs):
            for x, y in ds:
                loss = step(x, y)
            print(f"epoch {epoch}: bce {float(loss):.4f}")


if __name__ == "__main__":
    train(Config())
