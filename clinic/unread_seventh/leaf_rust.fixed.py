# %% [markdown]
# # Coffee leaf rust: five severity grades from phone photos
# Stage 1 trains the head, stage 2 fine-tunes the upper half of the backbone.

# %%
import collections
import json
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tensorflow as tf

ROOT = pathlib.Path("/kaggle/input/rocole")
SIZE, BATCH = 224, 32
GRADES = ["healthy", "level_1", "level_2", "level_3", "level_4"]
tf.keras.utils.set_random_seed(1)
tf.keras.mixed_precision.set_global_policy("mixed_float16")

# %%
meta = pd.read_csv(ROOT / "labels.csv")
meta["path"] = meta["file"].map(lambda f: str(ROOT / "photos" / f))
meta["y"] = meta["grade"].map({g: i for i, g in enumerate(GRADES)})
meta = meta.sample(frac=1.0, random_state=1).reset_index(drop=True)
cut = int(0.85 * len(meta))
tr, va = meta[:cut], meta[cut:]
counts = tr["y"].value_counts().sort_index()
class_weight = (len(tr) / (len(GRADES) * counts)).to_dict()
print(len(tr), len(va), class_weight)


# %%
def read(path, y):
    img = tf.io.decode_jpeg(tf.io.read_file(path), channels=3, ratio=2)
    img = tf.image.resize(img, [SIZE, SIZE], antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(img), 0, 255), tf.uint8), y


def make(df, training):
    ds = tf.data.Dataset.from_tensor_slices((df["path"].to_numpy(), df["y"].to_numpy()))
    ds = ds.map(read, num_parallel_calls=tf.data.AUTOTUNE).cache()
    if training:
        ds = ds.shuffle(1500)
    return ds.batch(BATCH, drop_remainder=training).prefetch(tf.data.AUTOTUNE)


train_ds, val_ds = make(tr, True), make(va, False)

# %%
augment = tf.keras.Sequential([
    tf.keras.layers.RandomFlip("horizontal_and_vertical"),
    tf.keras.layers.RandomRotation(0.2),
    tf.keras.layers.RandomContrast(0.2),
])
backbone = tf.keras.applications.MobileNetV3Large(include_top=False, pooling="avg",
                                                  input_shape=(SIZE, SIZE, 3))
backbone.trainable = False

inputs = tf.keras.Input((SIZE, SIZE, 3))
x = augment(inputs)
x = backbone(x, training=False)
x = tf.keras.layers.Dropout(0.3)(x)
outputs = tf.keras.layers.Dense(len(GRADES), activation="softmax", dtype="float32")(x)
model = tf.keras.Model(inputs, outputs)


# %%
class Board(tf.keras.callbacks.Callback):
    """The figure next to the notebook: loss and accuracy over the last stretch of training."""

    def __init__(self, folder, span=400):
        super().__init__()
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.loss = collections.deque(maxlen=span)
        self.acc = collections.deque(maxlen=span)
        self.val = []

    def draw(self):
        fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4), dpi=120)
        left.plot(self.loss, lw=0.8)
        left.set_title("loss")
        right.plot(self.acc, lw=0.8)
        right.set_title("accuracy")
        for e, v in enumerate(self.val[-5:]):
            right.axhline(v, ls=":", label=f"val -{len(self.val[-5:]) - e}")
        if self.val:
            right.legend()
        fig.tight_layout()
        fig.savefig(self.folder / "board.png")
        plt.close(fig)

    def on_train_batch_end(self, batch, logs=None):
        self.loss.append(logs["loss"])
        self.acc.append(logs["accuracy"])

    def on_epoch_end(self, epoch, logs=None):
        self.val.append(logs["val_accuracy"])
        self.draw()
        (self.folder / "val.json").write_text(json.dumps(self.val))


board = Board("board")

# %%
model.compile(optimizer=tf.keras.optimizers.Adam(1e-3),
              loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=8, class_weight=class_weight, verbose=2,
          callbacks=[board])

# %%
backbone.trainable = True
half = len(backbone.layers) // 2
for i, layer in enumerate(backbone.layers):
    if i < half or isinstance(layer, tf.keras.layers.BatchNormalization):
        layer.trainable = False

steps = len(tr) // BATCH
lr = tf.keras.optimizers.schedules.CosineDecay(5e-5, 30 * steps)
model.compile(optimizer=tf.keras.optimizers.AdamW(lr, weight_decay=1e-5),
              loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=30, class_weight=class_weight, verbose=2,
          callbacks=[board,
                     tf.keras.callbacks.EarlyStopping("val_loss", patience=6, restore_best_weights=True),
                     tf.keras.callbacks.ModelCheckpoint("rust.keras", save_best_only=True)])

# %%
prob = model.predict(val_ds)
pred = prob.argmax(1)
confusion = tf.math.confusion_matrix(va["y"].to_numpy(), pred, num_classes=len(GRADES)).numpy()
print(pd.DataFrame(confusion, GRADES, GRADES))
print("quadratic error", np.mean((pred - va["y"].to_numpy()) ** 2))
