from dataclasses import dataclass

import tensorflow as tf
from tensorflow import keras

keras.mixed_precision.set_global_policy("mixed_float16")


@dataclass
class Config:
    train_glob: str = "/data/decals/train-*.tfrecord"   # 128 shards, 240k cutouts of 424x424
    valid_glob: str = "/data/decals/valid-*.tfrecord"   # 4 shards, 8k cutouts
    crop: int = 320
    size: int = 224
    batch: int = 128
    n_questions: int = 34
    epochs: int = 25
    lr: float = 3e-4


FEATURES = {
    "image": tf.io.FixedLenFeature([], tf.string),
    "votes": tf.io.FixedLenFeature([34], tf.float32),
}


class GalaxyReader:
    def __init__(self, cfg: Config):
        self.cfg = cfg

    def decode(self, record):
        ex = tf.io.parse_single_example(record, FEATURES)
        img = tf.io.decode_jpeg(ex["image"], channels=3)
        img = tf.image.resize_with_crop_or_pad(img, self.cfg.crop, self.cfg.crop)
        img = tf.image.resize(img, (self.cfg.size, self.cfg.size), antialias=True)
        img = tf.cast(tf.clip_by_value(tf.round(img), 0, 255), tf.uint8)
        return img, ex["votes"]

    def train(self):
        files = tf.io.gfile.glob(self.cfg.train_glob)
        ds = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files))
        ds = ds.interleave(
            tf.data.TFRecordDataset,
            cycle_length=16,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=False,
        )
        ds = ds.shuffle(2048)
        ds = ds.map(self.decode, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(self.cfg.batch, drop_remainder=True)
        return ds.prefetch(tf.data.AUTOTUNE)

    def valid(self):
        files = sorted(tf.io.gfile.glob(self.cfg.valid_glob))
        ds = tf.data.TFRecordDataset(files, num_parallel_reads=4)
        ds = ds.map(self.decode, num_parallel_calls=tf.data.AUTOTUNE)
        ds = ds.batch(self.cfg.batch).cache()
        return ds.prefetch(tf.data.AUTOTUNE)


def build(cfg: Config):
    inputs = keras.Input((cfg.size, cfg.size, 3), dtype="uint8")
    x = keras.layers.RandomFlip("horizontal_and_vertical")(inputs)
    backbone = keras.applications.EfficientNetV2B0(
        include_top=False, weights="imagenet", pooling="avg",
        input_shape=(cfg.size, cfg.size, 3),
    )
    x = backbone(x)
    x = keras.layers.Dropout(0.2)(x)
    outputs = keras.layers.Dense(cfg.n_questions, activation="sigmoid", dtype="float32")(x)
    return keras.Model(inputs, outputs)


def run(cfg: Config):
    reader = GalaxyReader(cfg)
    model = build(cfg)
    schedule = keras.optimizers.schedules.CosineDecay(cfg.lr, cfg.epochs * (240_000 // cfg.batch))
    model.compile(
        optimizer=keras.optimizers.Adam(schedule),
        loss="binary_crossentropy",
        metrics=[keras.metrics.RootMeanSquaredError(name="rmse")],
    )
    model.fit(
        reader.train(),
        validation_data=reader.valid(),
        epochs=cfg.epochs,
        callbacks=[keras.callbacks.ModelCheckpoint("galaxy_morph.keras", save_best_only=True)],
        verbose=2,
    )


if __name__ == "__main__":
    run(Config())
