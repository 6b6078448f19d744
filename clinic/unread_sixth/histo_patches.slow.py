#!/usr/bin/env python
# coding: utf-8

# # Lymph node patches: tumour / normal
#
# Patches cut at 20x from 48 slides, stain-normalised, stored as one big uint8 array.

# In[1]:

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from sklearn.metrics import roc_auc_score

print(tf.__version__)

# In[2]:

patches = np.load("patches_160.npy", mmap_mode=None)      # (24000, 160, 160, 3) uint8
labels = np.load("labels.npy").astype("float32")
slide = np.load("slide_id.npy")

val_slides = [3, 9, 17, 22, 31, 40, 44]
m = np.isin(slide, val_slides)
x_train, y_train = patches[~m], labels[~m]
x_val, y_val = patches[m], labels[m]
del patches
rng = np.random.default_rng(0)
p = rng.permutation(len(x_train))
x_train, y_train = x_train[p], y_train[p]
x_train.dtype, x_train.shape

# In[3]:

BS = 128


def to_float(img, y):
    return tf.cast(img, tf.float32) / 255.0, y


with tf.device("/CPU:0"):
    train_ds = tf.data.Dataset.from_tensor_slices((x_train, y_train))
    val_ds = tf.data.Dataset.from_tensor_slices((x_val, y_val))

train_ds = (train_ds.shuffle(1000)
            .batch(BS, drop_remainder=True)
            .map(to_float, num_parallel_calls=tf.data.AUTOTUNE)
            .prefetch(tf.data.AUTOTUNE))
val_ds = (val_ds.batch(BS)
          .map(to_float, num_parallel_calls=tf.data.AUTOTUNE)
          .prefetch(tf.data.AUTOTUNE))

# In[4]:


def conv_bn(x, f, s=1):
    x = layers.SeparableConv2D(f, 3, strides=s, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.Activation("relu")(x)


inputs = keras.Input((160, 160, 3))
x = layers.RandomFlip("horizontal_and_vertical")(inputs)
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(x)
x = conv_bn(x, 32, 2)
x = conv_bn(x, 64, 2)
x = conv_bn(x, 128, 2)
x = conv_bn(x, 128)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.4)(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.summary()

# In[5]:


class SlideAUC(keras.callbacks.Callback):
    """AUC on the held-out slides, every five epochs"""

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % 5:
            return
        s = self.model.predict(val_ds, verbose=0).ravel()
        print("   slide AUC:", round(roc_auc_score(y_val, s), 4))


model.compile(keras.optimizers.Adam(1e-3), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(train_ds, epochs=40, validation_data=val_ds, callbacks=[SlideAUC()], verbose=2)

# In[6]:

scores = model.predict(val_ds, verbose=0).ravel()
ids = slide[m]
for s in val_slides:
    k = ids == s
    print("slide %2d: %5d patches, tumour share %.2f, mean score %.2f"
          % (s, k.sum(), y_val[k].mean(), scores[k].mean()))
model.save("patches.keras")
