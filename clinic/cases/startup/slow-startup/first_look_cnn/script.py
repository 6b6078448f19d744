"""A first look at a new image set with a residual net: sixty steps to see whether the loss moves."""
import time
import numpy as np
import keras
from keras import layers

x = np.random.rand(600, 24, 24, 3).astype("float32")
y = np.random.randint(0, 4, 600)


def block(h, filters):
    skip = h
    h = layers.Conv2D(filters, 3, padding="same")(h)
    h = layers.BatchNormalization()(h)
    h = layers.Activation("relu")(h)
    h = layers.Conv2D(filters, 3, padding="same")(h)
    h = layers.BatchNormalization()(h)
    return layers.Activation("relu")(layers.Add()([h, skip]))


start = time.perf_counter()
inp = keras.Input((24, 24, 3))
h = layers.Conv2D(8, 3, strides=2)(inp)
for _ in range(6):
    h = block(h, 8)
out = layers.Dense(4, activation="softmax")(layers.GlobalAveragePooling2D()(h))
model = keras.Model(inp, out)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=True)
model.fit(x, y, batch_size=10, epochs=1, verbose=2)
print("WORK", len(x))
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
