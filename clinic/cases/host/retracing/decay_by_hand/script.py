"""Image features -> class, custom loop with a hand-made exponential learning rate."""
import time
import numpy as np
import tensorflow as tf

X = np.random.rand(2000, 256).astype(np.float32)
Y = np.random.randint(0, 10, 2000)

model = tf.keras.Sequential([
    tf.keras.layers.Input((256,)),
    tf.keras.layers.Dense(128, activation='relu'),
    tf.keras.layers.Dense(64, activation='relu'),
    tf.keras.layers.Dense(10),
])
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(x, y, lr):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    for w, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        w.assign_sub(lr * g)
    return loss


ds = tf.data.Dataset.from_tensor_slices((X, Y)).batch(40).prefetch(tf.data.AUTOTUNE)
lr = 0.05
for x, y in ds.take(1):
    train_step(x, y, lr)

t0 = time.perf_counter()
for epoch in range(2):
    for x, y in ds:
        lr = lr * 0.999
        loss = train_step(x, y, lr)
    print(f'epoch {epoch}: loss {loss:.4f} lr {lr:.5f}')
print('WORK', 2 * 2000)
print(f'TRAIN_SECONDS {time.perf_counter() - t0:.3f}')
