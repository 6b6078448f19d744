"""Next-word model of a dialogue that is fed as far as it has come."""
import time
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(1)
WORDS = 200
text = rng.integers(1, WORDS, 100_000)
embed = tf.keras.layers.Embedding(WORDS, 32)
mix = tf.keras.layers.Dense(64, activation="relu")
head = tf.keras.layers.Dense(WORDS)
opt = tf.keras.optimizers.SGD(0.05)


@tf.function
def train_step(context, word):
    with tf.GradientTape() as tape:
        h = tf.reduce_mean(mix(embed(context)), axis=1)
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(word, head(h), from_logits=True))
    variables = embed.trainable_variables + mix.trainable_variables + head.trainable_variables
    grads = tape.gradient(loss, variables)
    opt.apply_gradients(zip(grads, variables))
    return loss


BATCH, TURNS = 8, 160
said = np.stack([text[i * 1000:i * 1000 + 900] for i in range(BATCH)])
train_step(said[:, :4], said[:, 4])
t0 = time.perf_counter()
for turn in range(5, 5 + TURNS):
    loss = train_step(said[:, :turn], said[:, turn])
print("loss %.3f" % float(loss))
print("WORK", TURNS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - t0))
