"""Inverse dynamics of a robot arm with percentile-based gradient clipping."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)

joints = rng.uniform(-1, 1, (8192, 64)).astype("float32")
mix = rng.normal(0, 0.4, (64, 7)).astype("float32")
torque = np.tanh(joints @ mix).astype("float32")
data = (
    tf.data.Dataset.from_tensor_slices((joints, torque))
    .shuffle(8192, seed=1)
    .batch(64, drop_remainder=True)
    .repeat()
    .prefetch(2)
)

model = tf.keras.Sequential([
    tf.keras.layers.Input((64,)),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(512, activation="relu"),
    tf.keras.layers.Dense(7),
])
optimizer = tf.keras.optimizers.SGD(0.02)


@tf.function
def compute(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    return loss, tape.gradient(loss, model.trainable_variables)


@tf.function
def apply(grads, limit):
    clipped = [tf.clip_by_value(g, -limit, limit) for g in grads]
    optimizer.apply_gradients(zip(clipped, model.trainable_variables))


norm_log, weight_log = [], []
for step, (x, y) in enumerate(data.take(500)):
    loss, grads = compute(x, y)
    flat = np.concatenate([g.numpy().ravel() for g in grads])
    limit = np.percentile(np.abs(flat), 99.5)
    apply(grads, tf.constant(limit, tf.float32))
    weights = np.concatenate([w.numpy().ravel() for w in model.trainable_variables])
    norm_log.append((np.linalg.norm(flat), limit))
    weight_log.append((weights.std(), np.abs(weights).max()))
    if step % 100 == 0:
        print(step, "loss", float(loss), "clip", limit)
print("median gradient norm", np.median([n for n, _ in norm_log]))
