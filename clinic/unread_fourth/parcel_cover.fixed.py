"""Land cover of 64x64 four-band parcels, ten classes. Small U-Net, own loop."""
import collections
import dataclasses
import time

import numpy as np
import tensorflow as tf

L = tf.keras.layers


@dataclasses.dataclass(frozen=True)
class Settings:
    parcels: int = 12_000
    side: int = 64
    bands: int = 4
    classes: int = 10
    batch: int = 32
    epochs: int = 40
    lr: float = 3e-4
    window: int = 20


def read_parcels(s):
    rng = np.random.default_rng(3)
    tiles = rng.integers(0, 256, (s.parcels, s.side, s.side, s.bands), dtype=np.uint8)
    cover = (tiles[..., 3].astype(np.int32) + tiles[..., 0]) * s.classes // 511
    return tiles, cover.astype(np.uint8)


def block(x, width):
    for _ in range(2):
        x = L.Conv2D(width, 3, padding="same", use_bias=False)(x)
        x = L.BatchNormalization()(x)
        x = L.ReLU()(x)
    return x


def unet(s, widths=(32, 64, 128)):
    inp = L.Input((s.side, s.side, s.bands), dtype="uint8")
    x = L.Rescaling(1 / 255.0)(inp)
    skips = []
    for w in widths[:-1]:
        x = block(x, w)
        skips.append(x)
        x = L.MaxPooling2D()(x)
    x = block(x, widths[-1])
    for w, skip in zip(reversed(widths[:-1]), reversed(skips)):
        x = L.Conv2DTranspose(w, 2, strides=2)(x)
        x = block(L.Concatenate()([x, skip]), w)
    return tf.keras.Model(inp, L.Conv2D(s.classes, 1)(x))


class Board:
    """Trailing view over what the network said, for the line printed after every epoch."""

    def __init__(self, window):
        self.window = window
        self.rows = collections.defaultdict(lambda: collections.deque(maxlen=window))

    def note(self, **values):
        for key, value in values.items():
            self.rows[key].append(value)

    def trailing(self, key):
        return list(self.rows[key])[-self.window:]

    def report(self):
        logits = tf.concat(self.trailing("logits"), 0)
        cover = tf.cast(tf.concat(self.trailing("cover"), 0), tf.int64)
        hit = tf.reduce_mean(tf.cast(tf.argmax(logits, -1) == cover, tf.float32))
        loss = tf.add_n(self.trailing("loss")) / len(self.trailing("loss"))
        return f"loss {float(loss):.4f}  pixel acc {float(hit):.3f}"


class Trainer:
    def __init__(self, s):
        self.s = s
        self.net = unet(s)
        self.opt = tf.keras.optimizers.Adam(s.lr)
        self.loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.board = Board(s.window)

    @tf.function
    def step(self, tiles, cover):
        with tf.GradientTape() as tape:
            logits = self.net(tiles, training=True)
            loss = self.loss(cover, logits)
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.net.trainable_variables))
        return loss, logits

    def run(self, ds):
        for epoch in range(self.s.epochs):
            t0 = time.perf_counter()
            for tiles, cover in ds:
                loss, logits = self.step(tiles, cover)
                self.board.note(loss=loss, logits=logits, cover=cover)
            print(f"{epoch:3d}  {self.board.report()}  {time.perf_counter() - t0:.1f}s", flush=True)
        return self.net


def main():
    s = Settings()
    ds = (tf.data.Dataset.from_tensor_slices(read_parcels(s))
          .shuffle(2_000)
          .batch(s.batch, drop_remainder=True)
          .prefetch(tf.data.AUTOTUNE))
    Trainer(s).run(ds).save("parcel_cover.keras")


if __name__ == "__main__":
    main()
