"""Crop/parcel cover classification from aerial tiles (TFRecord shards made by the export job)."""
import argparse
import dataclasses
import json
import logging
import os

import keras
import tensorflow as tf
from keras import layers

log = logging.getLogger("parcel_cover")


@dataclasses.dataclass
class Config:
    data: str = "/mnt/tiles/v7"
    out: str = "runs/vit_b16"
    image_size: int = 256
    patch: int = 16
    dim: int = 768
    depth: int = 12
    heads: int = 12
    mlp_ratio: int = 4
    dropout: float = 0.1
    classes: int = 48
    batch_size: int = 128
    epochs: int = 40
    train_tiles: int = 412_000
    peak_lr: float = 6e-4
    weight_decay: float = 0.05
    precision: str = "mixed_bfloat16"
    seed: int = 3


FEATURES = {
    "tile": tf.io.FixedLenFeature([], tf.string),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def make_dataset(cfg: Config, split: str) -> tf.data.Dataset:
    files = tf.io.gfile.glob(os.path.join(cfg.data, split, "*.tfrecord"))
    training = split == "train"

    def parse(record):
        ex = tf.io.parse_single_example(record, FEATURES)
        tile = tf.io.decode_png(ex["tile"], channels=3)
        tile.set_shape([cfg.image_size, cfg.image_size, 3])
        if training:
            tile = tf.image.random_flip_left_right(tile)
            tile = tf.image.random_flip_up_down(tile)
        return tile, ex["label"]

    ds = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(8192).repeat()
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return ds.batch(cfg.batch_size, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


@keras.saving.register_keras_serializable("parcel")
class PositionEmbedding(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(
            name="table", shape=(1, shape[1], shape[2]),
            initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        )

    def call(self, x):
        return x + self.table


def encoder_block(x, cfg: Config, name: str):
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_ln1")(x)
    y = layers.MultiHeadAttention(
        cfg.heads, cfg.dim // cfg.heads, dropout=cfg.dropout, name=f"{name}_mha")(y, y)
    x = layers.Add()([x, y])
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_ln2")(x)
    y = layers.Dense(cfg.dim * cfg.mlp_ratio, activation="gelu", name=f"{name}_up")(y)
    y = layers.Dense(cfg.dim, name=f"{name}_down")(y)
    y = layers.Dropout(cfg.dropout)(y)
    return layers.Add()([x, y])


def build_model(cfg: Config) -> keras.Model:
    inp = keras.Input((cfg.image_size, cfg.image_size, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1.0)(inp)
    x = layers.Conv2D(cfg.dim, cfg.patch, strides=cfg.patch, name="patches")(x)
    x = layers.Reshape((-1, cfg.dim))(x)
    x = PositionEmbedding()(x)
    for i in range(cfg.depth):
        x = encoder_block(x, cfg, f"block{i}")
    x = layers.LayerNormalization(epsilon=1e-6)(x)
    x = layers.GlobalAveragePooling1D()(x)
    out = layers.Dense(cfg.classes, dtype="float32", name="head")(x)
    return keras.Model(inp, out, name="parcel_vit")


def train(model: keras.Model, cfg: Config):
    steps = cfg.train_tiles // cfg.batch_size
    schedule = keras.optimizers.schedules.CosineDecay(
        1e-6, decay_steps=steps * (cfg.epochs - 3), alpha=1e-2,
        warmup_target=cfg.peak_lr, warmup_steps=steps * 3,
    )
    model.compile(
        optimizer=keras.optimizers.AdamW(
            schedule, weight_decay=cfg.weight_decay, beta_2=0.98, global_clipnorm=1.0),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(5, name="top5")],
    )
    return model.fit(
        make_dataset(cfg, "train"),
        steps_per_epoch=steps,
        epochs=cfg.epochs,
        validation_data=make_dataset(cfg, "val"),
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                os.path.join(cfg.out, "best.weights.h5"), monitor="val_accuracy",
                mode="max", save_best_only=True, save_weights_only=True),
            keras.callbacks.CSVLogger(os.path.join(cfg.out, "log.csv"), append=True),
            keras.callbacks.TerminateOnNaN(),
        ],
        verbose=2,
    )


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    parser = argparse.ArgumentParser()
    for field in dataclasses.fields(Config):
        parser.add_argument(f"--{field.name}", type=type(field.default), default=field.default)
    cfg = Config(**vars(parser.parse_args()))
    os.makedirs(cfg.out, exist_ok=True)
    with open(os.path.join(cfg.out, "config.json"), "w") as fh:
        json.dump(dataclasses.asdict(cfg), fh, indent=2)

    keras.utils.set_random_seed(cfg.seed)
    keras.mixed_precision.set_global_policy(cfg.precision)
    model = build_model(cfg)
    log.info("%s: %.1f M parameters", model.name, model.count_params() / 1e6)
    history = train(model, cfg)
    log.info("best val accuracy %.4f", max(history.history["val_accuracy"]))


if __name__ == "__main__":
    main()
