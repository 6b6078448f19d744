"""Character-level transformer on synthetic verse, custom loop with gradient clipping and a warm-up schedule."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

CHARS, CTX, WIDTH, HEADS, LAYERS, BATCH, STEPS = 40, 96, 128, 4, 2, 24, 70


class Block(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        L = tf.keras.layers
        self.n1, self.n2 = L.LayerNormalization(), L.LayerNormalization()
        self.att = L.MultiHeadAttention(HEADS, WIDTH // HEADS)
        self.up, self.down = L.Dense(4 * WIDTH, activation="relu"), L.Dense(WIDTH)

    def call(self, x):
        h = self.n1(x)
        x = x + self.att(h, h, use_causal_mask=True)
        return x + self.down(self.up(self.n2(x)))


class Verse(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.tok = tf.keras.layers.Embedding(CHARS, WIDTH)
        self.pos = self.add_weight(shape=(CTX, WIDTH), initializer="random_normal", name="pos")
        self.blocks = [Block() for _ in range(LAYERS)]
        self.out = tf.keras.layers.Dense(CHARS)

    def call(self, ids):
        x = self.tok(ids) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.out(x)


def corpus(n=200_000):
    rng = np.random.default_rng(33)
    words = [rng.integers(1, CHARS, rng.integers(2, 8)) for _ in range(60)]
    text = np.concatenate([np.append(words[i], 0) for i in rng.integers(0, 60, n // 5)])
    return text.astype("int32")


text = tf.constant(corpus())
starts = tf.data.Dataset.random(seed=1).map(lambda r: r % (len(text) - CTX - 1)).batch(BATCH)
batches = starts.map(lambda s: tf.gather(text, s[:, None] + tf.range(CTX + 1, dtype=tf.int64)),
                     num_parallel_calls=tf.data.AUTOTUNE).take(STEPS).prefetch(tf.data.AUTOTUNE)
model = Verse()
opt = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(0.0, 300, warmup_target=1e-3, warmup_steps=50),
                               global_clipnorm=1.0)


@tf.function
def step(ids):
    with tf.GradientTape() as tape:
        ce = tf.nn.sparse_softmax_cross_entropy_with_logits(ids[:, 1:], model(ids[:, :-1], training=True))
        loss = tf.reduce_mean(ce)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for i, ids in enumerate(batches):
    loss = step(ids)
    if i % 25 == 0:
        print(i, round(float(loss), 3), flush=True)
