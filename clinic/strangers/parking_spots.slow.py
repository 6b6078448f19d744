"""Free or taken? Parking spots from a roof camera, fine-tuned a few steps at a time."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(41)
rng = np.random.default_rng(41)


def crops(n):
    x = rng.normal(0.4, 0.15, (n, 40, 40, 3)).astype("float32")
    taken = rng.integers(0, 2, n)
    x[taken == 1, 10:30, 8:32] += rng.uniform(0.1, 0.5, (int(taken.sum()), 1, 1, 3)).astype("float32")
    return x, taken.astype("float32")


train_x, train_y = crops(1500)
valid_x, valid_y = crops(2400)

train = (
    tf.data.Dataset.from_tensor_slices((train_x, train_y))
    .shuffle(1500, seed=1)
    .repeat()
    .batch(32)
    .prefetch(tf.data.AUTOTUNE)
)
valid = tf.data.Dataset.from_tensor_slices((valid_x, valid_y)).batch(32).prefetch(tf.data.AUTOTUNE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((40, 40, 3)),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1),
])
model.compile(
    optimizer=tf.keras.optimizers.Adam(1e-3),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[tf.keras.metrics.BinaryAccuracy(threshold=0.0)],
)
model.fit(
    train,
    steps_per_epoch=8,
    epochs=16,
    validation_data=valid,
    callbacks=[
        tf.keras.callbacks.EarlyStopping("val_loss", patience=10, restore_best_weights=True),
        tf.keras.callbacks.ReduceLROnPlateau("val_loss", patience=5),
    ],
    verbose=2,
)
