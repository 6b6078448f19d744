from glob import glob

import tensorflow as tf
from data import tf_dataset
from tensorflow.keras.callbacks import CSVLogger, EarlyStopping, ModelCheckpoint, ReduceLROnPlateau

images, masks = sorted(glob("data/images/*")), sorted(glob("data/masks/*"))
cut = int(len(images) * 0.8)
train, valid = tf_dataset(images[:cut], masks[:cut], 8), tf_dataset(images[cut:], masks[cut:], 8)
inputs = tf.keras.Input((256, 256, 3))
x = tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
model = tf.keras.Model(inputs, tf.keras.layers.Conv2D(1, 1, activation="sigmoid")(x))
model.compile(loss="binary_crossentropy", optimizer=tf.keras.optimizers.Adam(1e-4))
callbacks = [ModelCheckpoint("model.keras"), ReduceLROnPlateau(patience=3), CSVLogger("data.csv"), EarlyStopping(patience=10)]
model.fit(train, validation_data=valid, epochs=20, steps_per_epoch=cut // 8, validation_steps=(len(images) - cut) // 8, callbacks=callbacks)
