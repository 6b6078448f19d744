"""Planogram compliance: classify shelf-facing photos by product category (field app uploads)."""
import argparse
import logging
import math
import os

import cv2
import numpy as np
import pandas as pd
from tensorflow import keras
from tensorflow.keras import layers

log = logging.getLogger("shelf")


class ShelfPhotos(keras.utils.Sequence):
    def __init__(self, frame, root, classes, size=224, batch_size=96, shuffle=True, **kwargs):
        super().__init__(**kwargs)
        self.paths = [os.path.join(root, p) for p in frame["path"]]
        lookup = {c: i for i, c in enumerate(classes)}
        self.labels = frame["category"].map(lookup).to_numpy("int32")
        self.size = size
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.order = np.arange(len(self.paths))
        self.on_epoch_end()

    def __len__(self):
        return math.ceil(len(self.paths) / self.batch_size)

    def on_epoch_end(self):
        if self.shuffle:
            np.random.shuffle(self.order)

    def __getitem__(self, index):
        rows = self.order[index * self.batch_size:(index + 1) * self.batch_size]
        images = np.zeros((len(rows), self.size, self.size, 3), dtype="uint8")
        for i, r in enumerate(rows):
            img = cv2.imread(self.paths[r])
            img = cv2.cvtColor(img, cv2.COLOR_BGR2RGB)
            images[i] = cv2.resize(img, (self.size, self.size), interpolation=cv2.INTER_AREA)
        return images, self.labels[rows]


def make_data(frame, root, classes, size, batch_size, training):
    return ShelfPhotos(frame, root, classes, size, batch_size, shuffle=training)


def make_model(size, n_classes, backbone_trainable=False):
    base = keras.applications.MobileNetV2(include_top=False, input_shape=(size, size, 3), weights="imagenet", pooling="avg")
    base.trainable = backbone_trainable
    inp = keras.Input((size, size, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(inp)
    x = layers.RandomFlip("horizontal")(x)
    x = layers.RandomZoom(0.1)(x)
    x = base(x, training=False)
    x = layers.Dropout(0.25)(x)
    return keras.Model(inp, layers.Dense(n_classes, activation="softmax")(x)), base


def compile_model(model, lr):
    model.compile(
        optimizer=keras.optimizers.Adam(lr),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(3, name="top3")],
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--index", default="photos/index.csv")      # 540k rows: path, category, store_id
    ap.add_argument("--root", default="photos")
    ap.add_argument("--size", type=int, default=224)
    ap.add_argument("--batch-size", type=int, default=96)
    ap.add_argument("--head-epochs", type=int, default=3)
    ap.add_argument("--finetune-epochs", type=int, default=12)
    ap.add_argument("--out", default="shelf.keras")
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO)

    index = pd.read_csv(args.index)
    classes = sorted(index["category"].unique())
    stores = index["store_id"].unique()
    held_out = set(np.random.default_rng(1).choice(stores, size=len(stores) // 20, replace=False))
    is_val = index["store_id"].isin(held_out)
    log.info("train %d val %d classes %d", (~is_val).sum(), is_val.sum(), len(classes))

    train = make_data(index[~is_val], args.root, classes, args.size, args.batch_size, True)
    val = make_data(index[is_val], args.root, classes, args.size, args.batch_size, False)

    model, base = make_model(args.size, len(classes))
    compile_model(model, 1e-3)
    model.fit(train, validation_data=val, epochs=args.head_epochs)

    base.trainable = True
    for layer in base.layers[:80]:
        layer.trainable = False
    compile_model(model, 5e-5)
    model.fit(
        train,
        validation_data=val,
        epochs=args.finetune_epochs,
        callbacks=[keras.callbacks.ModelCheckpoint(args.out, monitor="val_accuracy", save_best_only=True)],
    )


if __name__ == "__main__":
    main()
