"""Tags gameplay screenshots (menu, map, combat, ...) for the store front. Full-HD JPEGs in, 12 tags out."""
import functools
import os
import random

import numpy as np
import tensorflow as tf

TAGS = ["menu", "map", "combat", "dialogue", "inventory", "cutscene",
        "loading", "race", "puzzle", "lobby", "credits", "photo"]
CFG = {
    "size": 224,
    "batch": 64,
    "epochs": 25,
    "shots": 9_600,
    "runtime": {"seed": 1337, "workers": 0},
}


def repeatable(run):
    """Every release candidate is trained the same way, so that two reports can be compared."""

    @functools.wraps(run)
    def wrapper(cfg, *args, **kwargs):
        rt = cfg["runtime"]
        os.environ["PYTHONHASHSEED"] = str(rt["seed"])
        random.seed(rt["seed"])
        np.random.seed(rt["seed"])
        tf.random.set_seed(rt["seed"])
        for pool in ("inter_op", "intra_op"):
            getattr(tf.config.threading, f"set_{pool}_parallelism_threads")(rt["workers"])
        return run(cfg, *args, **kwargs)

    return wrapper


def archive(cfg):
    """Sixty-four encoded frames that stand in for the press archive."""
    rng = np.random.default_rng(5)
    coarse = rng.integers(0, 256, (64, 68, 120, 3)).astype(np.float32)
    frames = (tf.cast(tf.image.resize(c, (1080, 1920)), tf.uint8) for c in coarse)
    encoded = [tf.io.encode_jpeg(f, quality=92).numpy() for f in frames]
    pick = rng.integers(0, 64, cfg["shots"])
    return tf.constant(encoded), pick.astype(np.int64), (pick % len(TAGS)).astype(np.int32)


def loader(cfg, encoded, pick, tag, training):
    size = cfg["size"]

    def window(i, y):
        blob = tf.gather(encoded, i)
        h = tf.random.uniform((), 720, 1081, tf.int32)
        w = h * 16 // 9
        top = tf.random.uniform((), 0, 1081 - h, tf.int32)
        left = tf.random.uniform((), 0, 1921 - w, tf.int32)
        crop = tf.io.decode_and_crop_jpeg(blob, tf.stack([top, left, h, w]), channels=3)
        crop = tf.image.resize(crop, (size, size))
        return tf.cast(crop, tf.uint8), y

    ds = tf.data.Dataset.from_tensor_slices((pick, tag))
    if training:
        ds = ds.shuffle(len(pick))
    return (ds.map(window, num_parallel_calls=tf.data.AUTOTUNE)
            .batch(cfg["batch"], drop_remainder=training)
            .prefetch(tf.data.AUTOTUNE))


def tagger(cfg):
    backbone = tf.keras.applications.MobileNetV2(
        input_shape=(cfg["size"], cfg["size"], 3), include_top=False, weights=None, pooling="avg")
    inp = tf.keras.Input((cfg["size"], cfg["size"], 3), dtype="uint8")
    x = tf.keras.layers.Rescaling(1 / 127.5, offset=-1)(inp)
    x = tf.keras.layers.Dropout(0.2)(backbone(x))
    model = tf.keras.Model(inp, tf.keras.layers.Dense(len(TAGS), activation="softmax")(x))
    model.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
                  loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


@repeatable
def release(cfg, out="screenshot_tagger.keras"):
    encoded, pick, tag = archive(cfg)
    hold = cfg["shots"] // 12
    train = loader(cfg, encoded, pick[hold:], tag[hold:], True)
    check = loader(cfg, encoded, pick[:hold], tag[:hold], False)
    model = tagger(cfg)
    model.fit(train, validation_data=check, epochs=cfg["epochs"], verbose=2)
    model.save(out)
    return model


if __name__ == "__main__":
    release(CFG)
