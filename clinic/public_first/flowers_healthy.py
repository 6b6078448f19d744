import tensorflow as tf

train_ds = tf.keras.utils.image_dataset_from_directory("flower_photos", validation_split=0.2, subset="training", seed=123, image_size=(180, 180))
val_ds = tf.keras.utils.image_dataset_from_directory("flower_photos", validation_split=0.2, subset="validation", seed=123, image_size=(180, 180))
train_ds = train_ds.cache().shuffle(100).prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.cache().prefetch(tf.data.AUTOTUNE)
model = tf.keras.Sequential([
    tf.keras.layers.RandomFlip("horizontal", input_shape=(180, 180, 3)),
    tf.keras.layers.RandomRotation(0.1),
    tf.keras.layers.Rescaling(1.0 / 255),
    tf.keras.layers.Conv2D(16, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(5),
])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=15)
