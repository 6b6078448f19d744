"""Cloud fraction from small satellite tiles."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(47)
rng = np.random.default_rng(47)

BATCH_SIZE = 32
EPOCHS = 2

tiles = rng.normal(0.3, 0.1, (1300, 24, 24, 4)).astype("float32")
fraction = rng.uniform(0, 1, 1300).astype("float32")
tiles += (fraction[:, None, None, None] * rng.uniform(0.2, 0.4, (1300, 24, 24, 1))).astype("float32")

train_x, test_x = tiles[:1100], tiles[1100:]
train_y, test_y = fraction[:1100], fraction[1100:]
print("train", train_x.shape, "test", test_x.shape)

train_ds = (
    tf.data.Dataset.from_tensor_slices((train_x, train_y))
    .cache()
    .shuffle(1100, seed=1)
    .repeat()
    .batch(BATCH_SIZE)
    .prefetch(tf.data.AUTOTUNE)
)
test_ds = tf.data.Dataset.from_tensor_slices((test_x, test_y)).batch(BATCH_SIZE)

model = tf.keras.Sequential([
    tf.keras.layers.Input((24, 24, 4)),
    tf.keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.GlobalAveragePooling2D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="mse", metrics=["mae"])

n_train = train_x.shape[0]
history = model.fit(
    train_ds,
    epochs=EPOCHS,
    steps_per_epoch=n_train,
    validation_data=test_ds,
    verbose=2,
)
print("final val mae", history.history["val_mae"][-1])
