"""Two-layer network on tabular data; the gradients are kept for the plots of the report."""
import time
import numpy as np
import tensorflow as tf

BATCH, STEPS = 256, 700
rng = np.random.default_rng(3)
x = rng.normal(size=(40_000, 96)).astype("float32")
y = (x[:, :8].sum(axis=1) > 0).astype("int32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(4096).batch(BATCH, drop_remainder=True).repeat()
ds = ds.prefetch(2)

model = tf.keras.Sequential([
    tf.keras.layers.Input((96,)),
    tf.keras.layers.Dense(320, activation="relu"),
    tf.keras.layers.Dense(320, activation="relu"),
    tf.keras.layers.Dense(2),
])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(1e-3)


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        loss = loss_fn(yb, model(xb, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss, grads


batches = iter(ds)
loss, grads = train_step(*next(batches))
diary = []
start = time.perf_counter()
for step in range(STEPS):
    xb, yb = next(batches)
    loss, grads = train_step(xb, yb)
    diary.append(grads)
    if step % 100 == 0:
        print(step, float(loss))
norms = [float(tf.linalg.global_norm(g)) for g in diary[::50]]
print("mean gradient norm", np.mean(norms))
print("WORK", STEPS * BATCH)
print("TRAIN_SECONDS %.3f" % (time.perf_counter() - start))
