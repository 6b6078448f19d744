# Sentiment model on tokenised reviews that come from a Python generator.
import time
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
MAXLEN, VOCAB = 80, 5000
reviews = [rng.randint(1, VOCAB, size=rng.randint(20, 120)).tolist() for _ in range(6000)]
stars = rng.randint(0, 2, size=len(reviews))


def samples():
    for words, star in zip(reviews, stars):
        ids = words[:MAXLEN]
        ids = ids + [0] * (MAXLEN - len(ids))
        yield np.array(ids, dtype=np.int32), np.float32(star)


ds = tf.data.Dataset.from_generator(
    samples,
    output_signature=(tf.TensorSpec((MAXLEN,), tf.int32), tf.TensorSpec((), tf.float32)),
)
ds = ds.batch(64).prefetch(2)

model = tf.keras.Sequential([
    tf.keras.layers.Input((MAXLEN,), dtype="int32"),
    tf.keras.layers.Embedding(VOCAB, 16),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(loss="binary_crossentropy", optimizer=tf.keras.optimizers.SGD(0.5), metrics=["accuracy"])

model.fit(ds, epochs=1, verbose=2)
t = time.time()
model.fit(ds, epochs=3, verbose=2)
t = time.time() - t
print("WORK", 3 * len(reviews))
print("TRAIN_SECONDS %.3f" % t)
