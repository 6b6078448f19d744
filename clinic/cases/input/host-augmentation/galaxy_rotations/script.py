"""Galaxy shapes; random rotations and zooms as augmentation."""
import time
import numpy as np
import tensorflow as tf
from tensorflow import keras

images = np.random.randint(0, 255, (1536, 16, 16, 3), dtype="uint8")
kind = np.random.randint(0, 3, 1536)

rotate = keras.layers.RandomRotation(0.4)
zoom = keras.layers.RandomZoom(0.2)
contrast = keras.layers.RandomContrast(0.3)


def augment(image, label):
    image = tf.cast(image, tf.float32) / 255.0
    image = contrast(zoom(rotate(image, training=True), training=True), training=True)
    return image, label


ds = tf.data.Dataset.from_tensor_slices((images, kind)).shuffle(1536)
ds = ds.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
ds = ds.batch(32).prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((16, 16, 3)),
    keras.layers.Conv2D(8, 3, strides=2, activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(ds, epochs=1, verbose=2)
t0 = time.time()
model.fit(ds, epochs=16, initial_epoch=1, verbose=2)
print("WORK", 15 * 1536)
print("TRAIN_SECONDS %.3f" % (time.time() - t0))
