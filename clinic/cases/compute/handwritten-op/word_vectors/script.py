"""Topic classification with our own word embedding."""
import time
import numpy as np
import tensorflow as tf

VOCAB, DIM, LENGTH = 12_000, 32, 25
texts = np.random.randint(0, VOCAB, (3200, LENGTH))
topics = np.random.randint(0, 9, 3200)


class WordVectors(tf.keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(VOCAB, DIM), initializer="uniform")

    def call(self, ids):
        picked = tf.one_hot(ids, VOCAB)
        return tf.matmul(picked, self.table)


model = tf.keras.Sequential([
    tf.keras.layers.Input((LENGTH,), dtype="int64"),
    WordVectors(),
    tf.keras.layers.GlobalAveragePooling1D(),
    tf.keras.layers.Dense(9),
])
opt = tf.keras.optimizers.SGD(0.5)
xent = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(ids, topic):
    with tf.GradientTape() as tape:
        loss = xent(topic, model(ids))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


ds = tf.data.Dataset.from_tensor_slices((texts, topics)).batch(32).prefetch(tf.data.AUTOTUNE)
for ids, topic in ds.take(2):
    train_step(ids, topic)
start = time.time()
for ids, topic in ds.repeat(2):
    loss = train_step(ids, topic)
print("loss %.4f" % float(loss))
print("WORK", 2 * len(texts))
print("TRAIN_SECONDS %.3f" % (time.time() - start))
