import tensorflow as tf
from input_pipeline import get_dataset

train_ds = get_dataset("flower_photos/train/*/*.jpg", 32, True)
val_ds = get_dataset("flower_photos/val/*/*.jpg", 32, False)
model = tf.keras.applications.MobileNetV2(weights=None, classes=3, input_shape=(180, 180, 3))
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=10)
