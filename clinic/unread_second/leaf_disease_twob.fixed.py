# %% [markdown]
# Cassava-style leaf disease baseline
# %%
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SEED = 2024
IMG = 160
N_CLASSES = 5
BATCH = 64
EPOCHS = 10
keras.utils.set_random_seed(SEED)

# %%
rng = np.random.default_rng(SEED)
n = 4096
labels = rng.integers(0, N_CLASSES, n).astype("int32")
images = rng.integers(0, 120, (n, IMG, IMG, 3), dtype=np.uint8)
images[np.arange(n), :, :, labels % 3] += 40
folds = rng.integers(0, 5, n)
trn, val = folds != 0, folds == 0

# %%
augment = keras.Sequential(
    [
        layers.RandomFlip("horizontal_and_vertical"),
        layers.RandomRotation(0.25, fill_mode="reflect"),
        layers.RandomZoom(0.2),
        layers.RandomTranslation(0.1, 0.1),
        layers.RandomContrast(0.2),
    ],
    name="augment",
)


def get_ds(x, y, train):
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    if train:
        ds = ds.shuffle(1024)
    ds = ds.batch(BATCH)
    return ds.prefetch(tf.data.AUTOTUNE)


# %%
def sep_block(x, filters):
    x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    x = layers.ReLU()(x)
    return layers.MaxPooling2D()(x)


def get_model():
    inp = keras.Input((IMG, IMG, 3))
    x = augment(inp)
    x = layers.Rescaling(1.0 / 255)(x)
    x = layers.Conv2D(24, 3, strides=2, padding="same")(x)
    for f in (32, 64, 96):
        x = sep_block(x, f)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.3)(x)
    return keras.Model(inp, layers.Dense(N_CLASSES, activation="softmax")(x))


model = get_model()
model.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])

# %%
cbs = [
    keras.callbacks.ReduceLROnPlateau(patience=2, factor=0.5),
    keras.callbacks.EarlyStopping(patience=4, restore_best_weights=True),
]
hist = model.fit(
    get_ds(images[trn], labels[trn], True),
    validation_data=get_ds(images[val], labels[val], False),
    epochs=EPOCHS,
    callbacks=cbs,
    verbose=2,
)
print("OOF acc: %.4f" % max(hist.history["val_accuracy"]))
