"""Tram delays, own loop with a warm-up and decay of the rate."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(109)
rng = np.random.default_rng(109)

STOPS, FEATURES, BATCH = 200, 40, 512
stop = rng.integers(0, STOPS, 40000).astype("int32")
feats = rng.normal(0, 1, (40000, FEATURES)).astype("float32")
delay = (np.sin(feats[:, 0] * 2) + rng.normal(0, 1, STOPS)[stop] * 0.5 + feats[:, 1:5].sum(1) * 0.3).astype("float32")

embed = tf.keras.layers.Embedding(STOPS, 16)
body = tf.keras.Sequential([
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(256, activation="relu"),
    tf.keras.layers.Dense(1),
])
embed.build((None,))
body.build((None, FEATURES + 16))
variables = embed.trainable_variables + body.trainable_variables
optimizer = tf.keras.optimizers.Adam(1e-3)


def rate(step, warm=50, base=2e-3):
    return base * min(1.0, (step + 1) / warm) * 0.999 ** step


@tf.function(input_signature=[
    tf.TensorSpec((None,), tf.int32),
    tf.TensorSpec((None, FEATURES), tf.float32),
    tf.TensorSpec((None,), tf.float32),
    tf.TensorSpec((), tf.float32),
])
def train_step(s, x, y, lr):
    optimizer.learning_rate.assign(lr)
    with tf.GradientTape() as tape:
        pred = body(tf.concat([embed(s), x], axis=-1), training=True)[:, 0]
        loss = tf.reduce_mean(tf.abs(pred - y))
    grads, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
    optimizer.apply_gradients(zip(grads, variables))
    return loss


data = tf.data.Dataset.from_tensor_slices((stop, feats, delay)).shuffle(40000, seed=1).repeat()
data = data.batch(BATCH).prefetch(4)

window = []
for step, (s, x, y) in enumerate(data.take(500)):
    window.append(train_step(s, x, y, tf.constant(rate(step), tf.float32)))
    if step % 50 == 49:
        print(f"step {step + 1} loss {float(tf.reduce_mean(window)):.4f}")
        window.clear()
