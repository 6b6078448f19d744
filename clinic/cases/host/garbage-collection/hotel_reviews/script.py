"""Hotel review sentiment. Based on the text classification guide."""
import gc
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(5)
WORDS = ["room", "clean", "dirty", "noisy", "quiet", "staff", "rude", "friendly", "bed", "pool",
         "breakfast", "cold", "warm", "view", "street", "lovely", "awful", "never", "again", "great"]


def reviews(n=1280, length=30):
    rng = np.random.default_rng(5)
    ids = rng.integers(0, len(WORDS), (n, length))
    score = np.isin(ids, [1, 4, 7, 12, 15, 19]).sum(1) > np.isin(ids, [2, 3, 6, 11, 16, 17]).sum(1)
    texts = [" ".join(WORDS[j] for j in row) for row in ids]
    return texts, score.astype("float32")


class Housekeeping(keras.callbacks.Callback):
    """Keeps the notebook kernel from running out of memory."""

    def __init__(self):
        super().__init__()
        self.freed = 0

    def on_train_batch_end(self, batch, logs=None):
        self.freed += gc.collect()

    def on_epoch_end(self, epoch, logs=None):
        print(f"  freed so far: {self.freed}")


texts, score = reviews()
vectorize = layers.TextVectorization(max_tokens=200, output_sequence_length=30)
vectorize.adapt(texts)
tokens = vectorize(np.array(texts)).numpy()

inputs = layers.Input((30,), dtype="int32")
x = layers.Embedding(200, 32)(inputs)
x = layers.Bidirectional(layers.LSTM(32))(x)
x = layers.Dense(32, activation="relu")(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])

ds = tf.data.Dataset.from_tensor_slices((tokens, score)).cache().shuffle(1280).batch(64).prefetch(2)
EPOCHS = 3
t0 = time.time()
model.fit(ds, epochs=EPOCHS, callbacks=[Housekeeping()], verbose=2)
t1 = time.time()
print("WORK", EPOCHS * len(texts))
print("TRAIN_SECONDS %.2f" % (t1 - t0))
