"""Character-level language model: one transformer block."""
import time
import numpy as np
import keras
from keras import layers

text = np.random.randint(0, 64, 40_000)
T, D = 64, 96
x = np.stack([text[i:i + T] for i in range(0, 38_400, 24)])
y = np.stack([text[i + 1:i + T + 1] for i in range(0, 38_400, 24)])

ids = keras.Input((T,), dtype="int32")
h = layers.Embedding(64, D)(ids)
a = layers.MultiHeadAttention(4, D // 4)(h, h, use_causal_mask=True)
h = layers.LayerNormalization()(h + a)
f = layers.Dense(D)(layers.Dense(4 * D, activation="gelu")(h))
h = layers.LayerNormalization()(h + f)
model = keras.Model(ids, layers.Dense(64)(h))
model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=32, epochs=1, verbose=2)
start = time.time()
model.fit(x, y, batch_size=32, epochs=7, initial_epoch=1, verbose=2)
print("WORK", 6 * len(x))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
