# Heartbeat classification, MIT-BIH (the Kaggle csv version: 187 samples + label per row)
import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SEED = 7
BATCH = 256
EPOCHS = 40
keras.utils.set_random_seed(SEED)

train_df = pd.read_csv("heartbeat/mitbih_train.csv", header=None, dtype=np.float32)
test_df = pd.read_csv("heartbeat/mitbih_test.csv", header=None, dtype=np.float32)
print(train_df.shape, test_df.shape)  # (87554, 188) (21892, 188)

X = train_df.iloc[:, :187].to_numpy()
y = train_df.iloc[:, 187].to_numpy().astype("int32")
X_test = test_df.iloc[:, :187].to_numpy()
y_test = test_df.iloc[:, 187].to_numpy().astype("int32")


def standardize(a):
    m = a.mean(axis=1, keepdims=True)
    s = a.std(axis=1, keepdims=True) + 1e-6
    return ((a - m) / s)[..., None]


X, X_test = standardize(X), standardize(X_test)

counts = np.bincount(y, minlength=5)
class_weight = {i: float(len(y) / (5 * c)) for i, c in enumerate(counts)}


def jitter(beats, labels):
    n = tf.shape(beats)[0]
    gain = tf.random.uniform([n, 1, 1], 0.85, 1.15)
    offset = tf.random.normal([n, 1, 1], stddev=0.05)
    noise = tf.random.normal(tf.shape(beats), stddev=0.02)
    return beats * gain + offset + noise, labels


train_ds = (
    tf.data.Dataset.from_tensor_slices((X, y))
    .shuffle(20000, seed=SEED)
    .batch(BATCH)
    .map(jitter, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)
test_ds = tf.data.Dataset.from_tensor_slices((X_test, y_test)).batch(1024).prefetch(tf.data.AUTOTUNE)


def res_block(x, filters):
    skip = layers.Conv1D(filters, 1, padding="same")(x)
    x = layers.Conv1D(filters, 5, padding="same", activation="relu")(x)
    x = layers.Conv1D(filters, 5, padding="same")(x)
    x = layers.Add()([x, skip])
    x = layers.ReLU()(x)
    return layers.MaxPooling1D(2)(x)


inp = keras.Input((187, 1))
x = layers.Conv1D(32, 7, padding="same", activation="relu")(inp)
for f in (32, 32, 64, 64):
    x = res_block(x, f)
x = layers.GlobalAveragePooling1D()(x)
x = layers.Dropout(0.3)(x)
out = layers.Dense(5, activation="softmax")(x)
model = keras.Model(inp, out)

model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(
    train_ds,
    validation_data=test_ds,
    epochs=EPOCHS,
    class_weight=class_weight,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(patience=4, factor=0.5),
        keras.callbacks.EarlyStopping(patience=10, restore_best_weights=True),
    ],
    verbose=2,
)
pred = model.predict(test_ds).argmax(axis=1)
print(pd.crosstab(y_test, pred))
model.save("ecg_beats.keras")
