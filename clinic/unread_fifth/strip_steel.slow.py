# Hot rolled strip: 6 defect classes from the line scan camera.
# crops_*.npy are (N, 256, 256) uint8, one grey channel as it comes from the camera.
import json

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

CLASSES = ["crazing", "inclusion", "patches", "pitted", "rolled_in", "scratches"]
BATCH = 128
EPOCHS = 40
AUTOTUNE = tf.data.AUTOTUNE


def load_split(name):
    images = np.load(f"data/crops_{name}.npy")
    labels = np.load(f"data/labels_{name}.npy").astype("int32")
    print(name, images.shape, images.dtype, np.bincount(labels))
    return images, labels


def to_rgb(images, labels):
    images = tf.cast(images[..., tf.newaxis], tf.float32) / 127.5 - 1.0
    images = tf.image.grayscale_to_rgb(images)
    return images, labels


def make_dataset(images, labels, training):
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    if training:
        ds = ds.shuffle(2048, seed=11)
    ds = ds.batch(BATCH, drop_remainder=training)
    ds = ds.map(to_rgb, num_parallel_calls=AUTOTUNE)
    return ds.prefetch(AUTOTUNE)


def build_model():
    inputs = keras.Input((256, 256, 3))
    x = layers.RandomFlip("horizontal_and_vertical")(inputs)
    backbone = keras.applications.MobileNetV2(
        include_top=False, weights="imagenet", input_shape=(256, 256, 3), alpha=0.5
    )
    x = backbone(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    outputs = layers.Dense(len(CLASSES), activation="softmax", dtype="float32")(x)
    return keras.Model(inputs, outputs)


def main():
    keras.mixed_precision.set_global_policy("mixed_float16")
    x_train, y_train = load_split("train")      # 16 800 crops
    x_val, y_val = load_split("val")            # 2 100 crops
    train_ds = make_dataset(x_train, y_train, training=True)
    val_ds = make_dataset(x_val, y_val, training=False)

    model = build_model()
    model.compile(
        optimizer=keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(1e-3, EPOCHS * (len(x_train) // BATCH))
        ),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    counts = np.bincount(y_train, minlength=len(CLASSES))
    class_weight = {i: len(y_train) / (len(CLASSES) * c) for i, c in enumerate(counts)}
    history = model.fit(
        train_ds,
        validation_data=val_ds,
        epochs=EPOCHS,
        class_weight=class_weight,
        callbacks=[
            keras.callbacks.EarlyStopping(monitor="val_accuracy", patience=8, restore_best_weights=True)
        ],
        verbose=2,
    )
    model.save("strip_steel_mnv2.keras")
    with open("strip_steel_history.json", "w") as f:
        json.dump({k: [float(v) for v in vs] for k, vs in history.history.items()}, f)


if __name__ == "__main__":
    main()
