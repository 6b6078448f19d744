"""Road extraction from aerial tiles: U-Net, large tiles, mixed precision."""
from dataclasses import dataclass
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras


@dataclass
class Cfg:
    tile: int = 512
    tiles: int = 640
    batch: int = 8
    base: int = 48
    epochs: int = 30
    debug: bool = False
    beat: int = 200


class Heartbeat(keras.callbacks.Callback):
    def __init__(self, path, every):
        super().__init__()
        self.path, self.every, self.seen = path, every, 0

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen % self.every:
            return
        with open(self.path, "a") as f:
            f.write("%d %.5f\n" % (self.seen, logs["loss"]))


def write_tiles(root, cfg):
    rng = np.random.default_rng(0)
    for i in range(cfg.tiles):
        img = rng.integers(0, 120, (cfg.tile // 8, cfg.tile // 8, 3), dtype=np.uint8)
        img = img.repeat(8, 0).repeat(8, 1)
        mask = np.zeros((cfg.tile, cfg.tile, 1), np.uint8)
        a = int(rng.integers(20, cfg.tile - 20))
        mask[a - 8:a + 8] = 255
        img[a - 8:a + 8] = 200
        tf.io.write_file(f"{root}/img_{i:04d}.jpg", tf.io.encode_jpeg(img))
        tf.io.write_file(f"{root}/msk_{i:04d}.png", tf.io.encode_png(mask))


def tiles(root, cfg):
    def load(i):
        key = tf.strings.as_string(i, width=4, fill="0")
        img = tf.io.decode_jpeg(tf.io.read_file(root + "/img_" + key + ".jpg"), channels=3)
        msk = tf.io.decode_png(tf.io.read_file(root + "/msk_" + key + ".png"), channels=1)
        img = tf.ensure_shape(img, (cfg.tile, cfg.tile, 3))
        return img, tf.ensure_shape(msk, (cfg.tile, cfg.tile, 1)) // 255

    ds = tf.data.Dataset.range(cfg.tiles)
    ds = ds.map(load, num_parallel_calls=tf.data.AUTOTUNE).cache()
    ds = ds.shuffle(64).batch(cfg.batch, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def conv2(x, ch):
    for _ in range(2):
        x = keras.layers.Conv2D(ch, 3, padding="same", use_bias=False)(x)
        x = keras.layers.BatchNormalization()(x)
        x = keras.layers.ReLU()(x)
    return x


def unet(cfg):
    inp = keras.Input((cfg.tile, cfg.tile, 3), dtype="uint8")
    x = keras.layers.Rescaling(1 / 255.0)(inp)
    skips = []
    for d in range(4):
        x = conv2(x, cfg.base * 2 ** d)
        skips.append(x)
        x = keras.layers.MaxPooling2D()(x)
    x = conv2(x, cfg.base * 16)
    for d, s in reversed(list(enumerate(skips))):
        x = keras.layers.Conv2DTranspose(cfg.base * 2 ** d, 2, strides=2)(x)
        x = conv2(keras.layers.Concatenate()([x, s]), cfg.base * 2 ** d)
    return keras.Model(inp, keras.layers.Conv2D(1, 1, activation="sigmoid", dtype="float32")(x))


def main(cfg=Cfg()):
    keras.mixed_precision.set_global_policy("mixed_float16")
    with tempfile.TemporaryDirectory() as root:
        write_tiles(root, cfg)
        net = unet(cfg)
        net.compile(optimizer=keras.optimizers.Adam(1e-3), loss="binary_crossentropy",
                    run_eagerly=cfg.debug)
        beat = Heartbeat(os.path.join(root, "beat.txt"), cfg.beat)
        net.fit(tiles(root, cfg), epochs=cfg.epochs, callbacks=[beat], verbose=2)


if __name__ == "__main__":
    main()
