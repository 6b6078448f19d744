"""Semantic segmentation of dash-cam frames (24 classes, class 0 is void)."""
from dataclasses import dataclass, field
from pathlib import Path

import tensorflow as tf

L = tf.keras.layers


@dataclass
class DataConfig:
    root: Path = Path("/datasets/dashcam")
    height: int = 512
    width: int = 1024
    classes: int = 24
    batch_size: int = 12
    shuffle: int = 4000
    num_workers: int = tf.data.AUTOTUNE


@dataclass
class TrainConfig:
    epochs: int = 80
    lr: float = 6e-4
    weight_decay: float = 1e-4
    ckpt: str = "checkpoints/street_{epoch:03d}.keras"
    data: DataConfig = field(default_factory=DataConfig)


class SceneData:
    def __init__(self, cfg: DataConfig):
        self.cfg = cfg

    def _paths(self, split):
        images = sorted((self.cfg.root / split / "rgb").glob("*/*.jpg"))
        masks = [self.cfg.root / split / "ids" / p.parent.name / f"{p.stem}.png" for p in images]
        return [str(p) for p in images], [str(p) for p in masks]

    def _read(self, image_path, mask_path):
        c = self.cfg
        image = tf.io.decode_jpeg(tf.io.read_file(image_path), channels=3)
        mask = tf.io.decode_png(tf.io.read_file(mask_path), channels=1)
        image = tf.cast(tf.image.resize(image, (c.height, c.width)), tf.uint8)
        mask = tf.image.resize(mask, (c.height, c.width), method="nearest")
        return image, mask[..., 0]

    @staticmethod
    def _flip(image, mask):
        flip = tf.random.uniform(()) < 0.5
        return tf.cond(flip, lambda: (image[:, ::-1], mask[:, ::-1]), lambda: (image, mask))

    def load(self, split):
        c = self.cfg
        images, masks = self._paths(split)
        ds = tf.data.Dataset.from_tensor_slices((images, masks))
        if split == "train":
            ds = ds.shuffle(c.shuffle)
        ds = ds.map(self._read, num_parallel_calls=c.num_workers)
        if split == "train":
            ds = ds.map(self._flip, num_parallel_calls=tf.data.AUTOTUNE)
        return ds.batch(c.batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def sep(x, filters, rate=1):
    x = L.SeparableConv2D(filters, 3, padding="same", dilation_rate=rate, use_bias=False)(x)
    x = L.BatchNormalization()(x)
    return L.Activation("relu")(x)


def build_model(c: DataConfig):
    inputs = L.Input((c.height, c.width, 3))
    base = tf.keras.applications.MobileNetV2(input_tensor=L.Rescaling(1 / 127.5, -1)(inputs), include_top=False)
    low = base.get_layer("block_3_expand_relu").output
    high = base.get_layer("block_13_expand_relu").output

    pooled = L.GlobalAveragePooling2D(keepdims=True)(high)
    pooled = L.Conv2D(128, 1, activation="relu")(pooled)
    pooled = L.UpSampling2D(high.shape[1:3])(pooled)
    branches = [L.Conv2D(128, 1, activation="relu")(high), sep(high, 128, 6), sep(high, 128, 12), pooled]
    x = sep(L.Concatenate()(branches), 128)
    x = L.UpSampling2D(4, interpolation="bilinear")(x)
    x = L.Concatenate()([x, L.Conv2D(48, 1, activation="relu")(low)])
    x = sep(sep(x, 128), 128)
    x = L.Conv2D(c.classes, 1)(x)
    x = L.UpSampling2D(4, interpolation="bilinear")(x)
    return tf.keras.Model(inputs, L.Activation("linear", dtype="float32")(x))


def main():
    cfg = TrainConfig()
    tf.keras.utils.set_random_seed(2024)
    tf.keras.mixed_precision.set_global_policy("mixed_float16")
    Path(cfg.ckpt).parent.mkdir(exist_ok=True)

    data = SceneData(cfg.data)
    train, val = data.load("train"), data.load("val")
    steps = cfg.epochs * int(train.cardinality())

    model = build_model(cfg.data)
    model.compile(
        optimizer=tf.keras.optimizers.AdamW(
            tf.keras.optimizers.schedules.PolynomialDecay(cfg.lr, steps, power=0.9), weight_decay=cfg.weight_decay
        ),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["sparse_categorical_accuracy"],
    )
    model.fit(
        train,
        validation_data=val,
        validation_freq=5,
        epochs=cfg.epochs,
        callbacks=[
            tf.keras.callbacks.ModelCheckpoint(cfg.ckpt, monitor="val_loss", save_best_only=True),
            tf.keras.callbacks.CSVLogger("street.csv"),
        ],
    )


if __name__ == "__main__":
    main()
