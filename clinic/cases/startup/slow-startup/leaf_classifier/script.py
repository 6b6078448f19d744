"""Classify leaf photographs. The trunk is picked on the command line."""
import argparse
import os
import tempfile

import numpy as np
import keras
from keras import applications, layers

CLASSES = ["ash", "beech", "birch", "elm", "hazel", "oak"]


def plain_cnn(shape):
    return keras.Sequential([
        layers.Input(shape),
        layers.Rescaling(1 / 127.5, offset=-1),
        layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(32, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
        layers.GlobalAveragePooling2D(),
    ], name="plain")


def trunks(size):
    shape = (size, size, 3)
    common = dict(include_top=False, weights=None, input_shape=shape, pooling="avg")
    return {
        "plain": plain_cnn(shape),
        "mobilenet": applications.MobileNetV2(**common),
        "efficientnet-b0": applications.EfficientNetB0(**common),
        "efficientnet-b2": applications.EfficientNetB2(**common),
        "densenet": applications.DenseNet121(**common),
        "resnet": applications.ResNet50V2(**common),
        "inception": applications.InceptionV3(**common),
    }


def build(args):
    trunk = trunks(args.size)[args.trunk]
    inp = keras.Input((args.size, args.size, 3))
    h = trunk(inp)
    h = layers.Dropout(args.dropout)(h)
    out = layers.Dense(len(CLASSES), activation="softmax")(h)
    model = keras.Model(inp, out, name="leaves_" + args.trunk.replace("-", "_"))
    model.compile(
        optimizer=keras.optimizers.Adam(args.lr),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model


def photos(n, size, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(CLASSES), n)
    tint = rng.uniform(60, 190, (len(CLASSES), 1, 1, 3))
    x = tint.astype("float32")[y] + 40 * rng.standard_normal((n, size, size, 3), dtype=np.float32)
    return np.clip(x, 0, 255).astype("uint8"), y.astype("int32")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--trunk", default="plain")
    p.add_argument("--size", type=int, default=80)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--dropout", type=float, default=0.2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--images", type=int, default=768)
    return p.parse_args()


def main():
    args = parse()
    keras.utils.set_random_seed(17)
    x, y = photos(args.images, args.size, 17)
    model = build(args)
    print(model.name, model.count_params(), "parameters")
    model.fit(x, y, batch_size=args.batch, epochs=args.epochs, verbose=2)
    path = os.path.join(tempfile.mkdtemp(prefix="leaves_"), model.name + ".weights.h5")
    model.save_weights(path)
    print("saved", path)


if __name__ == "__main__":
    main()
