"""Song recommender: user and song embeddings, dot product, Adam."""
import time
import numpy as np
import tensorflow as tf

USERS, SONGS, DIM = 200_000, 100_000, 32
n = 19_200
user = np.random.randint(0, USERS, n)
song = np.random.randint(0, SONGS, n)
liked = np.random.randint(0, 2, n).astype("float32")

u_in = tf.keras.Input((), dtype="int32")
s_in = tf.keras.Input((), dtype="int32")
u = tf.keras.layers.Embedding(USERS, DIM)(u_in)
s = tf.keras.layers.Embedding(SONGS, DIM)(s_in)
score = tf.keras.layers.Activation("sigmoid")(tf.keras.layers.Dot(axes=1)([u, s]))
model = tf.keras.Model([u_in, s_in], score)
model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="binary_crossentropy", jit_compile=False)

model.fit([user[:256], song[:256]], liked[:256], batch_size=128, verbose=0)
t0 = time.perf_counter()
model.fit([user, song], liked, batch_size=128, epochs=1, verbose=2)
print("WORK", n)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
