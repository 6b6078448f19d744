"""SimCLR pretraining on histology tiles (JPEG, 256 px, TFRecord shards), then a linear probe elsewhere."""
import argparse
import os

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

TILE = 256
CROP = 192
FEATURES = {"image": tf.io.FixedLenFeature([], tf.string)}


def decode(record):
    data = tf.io.parse_single_example(record, FEATURES)["image"]
    image = tf.io.decode_jpeg(data, channels=3)
    return tf.ensure_shape(image, (TILE, TILE, 3))


def gaussian_kernel(sigma, radius=8):
    x = tf.range(-radius, radius + 1, dtype=tf.float32)
    k = tf.exp(-0.5 * tf.square(x / sigma))
    return k / tf.reduce_sum(k)


def blur(images, sigma):
    k = gaussian_kernel(sigma)
    kx = tf.tile(k[:, None, None, None], (1, 1, 3, 1))
    ky = tf.tile(k[None, :, None, None], (1, 1, 3, 1))
    images = tf.nn.depthwise_conv2d(images, kx, (1, 1, 1, 1), "SAME")
    return tf.nn.depthwise_conv2d(images, ky, (1, 1, 1, 1), "SAME")


def per_image(n, low, high):
    return tf.random.uniform((n, 1, 1, 1), low, high)


def view(tiles):
    """One random view of every tile in the batch, float in 0..255."""
    n = tf.shape(tiles)[0]
    x = tf.image.convert_image_dtype(tiles, tf.float32)
    side = tf.random.uniform((n, 1), 96.0 / TILE, 1.0)
    corner = tf.random.uniform((n, 2)) * (1.0 - side)
    boxes = tf.concat([corner, corner + side], 1)
    x = tf.image.crop_and_resize(x, boxes, tf.range(n), (CROP, CROP))
    x = tf.where(per_image(n, 0.0, 1.0) < 0.5, x[:, :, ::-1], x)
    x = tf.where(per_image(n, 0.0, 1.0) < 0.5, x[:, ::-1], x)
    x += per_image(n, -0.25, 0.25)
    mean = tf.reduce_mean(x, (1, 2), keepdims=True)
    x = mean + (x - mean) * per_image(n, 0.6, 1.4)
    hsv = tf.image.rgb_to_hsv(tf.clip_by_value(x, 0.0, 1.0))
    hue = tf.math.floormod(hsv[..., :1] + per_image(n, -0.08, 0.08), 1.0)
    saturation = tf.clip_by_value(hsv[..., 1:2] * per_image(n, 0.6, 1.4), 0.0, 1.0)
    x = tf.image.hsv_to_rgb(tf.concat([hue, saturation, hsv[..., 2:]], -1))
    x += per_image(n, 0.0, 1.0) * (blur(x, 2.0) - x)
    return 255.0 * tf.clip_by_value(x, 0.0, 1.0)


def make_dataset(pattern, batch):
    files = tf.data.Dataset.list_files(pattern, shuffle=True).repeat()
    ds = files.interleave(
        tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    ds = ds.shuffle(4096)
    ds = ds.map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def build_encoder(width):
    backbone = keras.applications.ResNet50(include_top=False, weights=None, pooling="avg", input_shape=(CROP, CROP, 3))
    inputs = keras.Input((CROP, CROP, 3))
    h = backbone(layers.Rescaling(1 / 127.5, offset=-1.0)(inputs))
    z = layers.Dense(512, activation="relu")(h)
    z = layers.Dense(width, dtype="float32")(z)
    return keras.Model(inputs, z), backbone


class Pretrainer:
    def __init__(self, args):
        self.args = args
        self.encoder, self.backbone = build_encoder(128)
        rate = keras.optimizers.schedules.CosineDecay(args.lr, args.steps)
        self.optimizer = keras.optimizers.AdamW(rate, weight_decay=1e-5)
        self.loss = keras.metrics.Mean("loss")
        self.hits = keras.metrics.Mean("hits")

    def nt_xent(self, za, zb):
        z = tf.math.l2_normalize(tf.concat([za, zb], 0), axis=1)
        n = tf.shape(za)[0]
        logits = tf.matmul(z, z, transpose_b=True) / self.args.temperature
        logits = tf.linalg.set_diag(logits, tf.fill([2 * n], -1e9))
        labels = tf.concat([tf.range(n, 2 * n), tf.range(n)], 0)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        hit = tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels), tf.float32)
        return tf.reduce_mean(loss), tf.reduce_mean(hit)

    @tf.function
    def step(self, tiles):
        pairs = tf.concat([view(tiles), view(tiles)], 0)
        with tf.GradientTape() as tape:
            z = self.encoder(pairs, training=True)
            za, zb = tf.split(z, 2)
            loss, hit = self.nt_xent(za, zb)
        variables = self.encoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        self.loss.update_state(loss)
        self.hits.update_state(hit)

    def run(self, dataset):
        writer = tf.summary.create_file_writer(self.args.out)
        for i, tiles in enumerate(dataset.take(self.args.steps), 1):
            self.step(tiles)
            if i % 250 == 0:
                loss, hits = float(self.loss.result()), float(self.hits.result())
                print(f"{i:7d}  loss {loss:.3f}  top-1 {hits:.3f}", flush=True)
                with writer.as_default(step=i):
                    tf.summary.scalar("loss", loss)
                    tf.summary.scalar("contrastive_top1", hits)
                self.loss.reset_state()
                self.hits.reset_state()
            if i % 10_000 == 0:
                self.backbone.save_weights(os.path.join(self.args.out, f"backbone-{i}.weights.h5"))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--tiles", default="/data/camelyon/tiles-*.tfrecord")
    p.add_argument("--out", default="runs/simclr")
    p.add_argument("--batch", type=int, default=192)
    p.add_argument("--steps", type=int, default=100_000)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--temperature", type=float, default=0.2)
    args = p.parse_args()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    os.makedirs(args.out, exist_ok=True)
    Pretrainer(args).run(make_dataset(args.tiles, args.batch))
