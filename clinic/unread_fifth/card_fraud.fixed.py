# Card fraud, MLP with focal loss
import numpy as np
import tensorflow as tf
from tensorflow import keras

tf.random.set_seed(11)
rng = np.random.default_rng(11)

N, D = 600_000, 30
BATCH = 1024
EPOCHS = 20

X = rng.standard_normal((N, D), dtype=np.float32)
w = rng.normal(size=D).astype(np.float32)
score = X @ w + 0.5 * X[:, 0] * X[:, 3]
y = (score > np.quantile(score, 0.985)).astype(np.float32)
amount = np.exp(rng.normal(3.2, 1.1, size=N)).astype(np.float32)
X = np.concatenate([X, np.log1p(amount)[:, None]], axis=1)

split = int(N * 0.9)
X_tr, y_tr = X[:split], y[:split]
X_va, y_va = X[split:], y[split:]

train_ds = (
    tf.data.Dataset.from_tensor_slices((X_tr, y_tr))
    .batch(BATCH, drop_remainder=True)
    .cache()
    .shuffle(600)
    .prefetch(tf.data.AUTOTUNE)
)
val_ds = tf.data.Dataset.from_tensor_slices((X_va, y_va)).batch(8192).cache().prefetch(2)

model = keras.Sequential([
    keras.layers.Input((D + 1,)),
    keras.layers.Dense(256, activation="relu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dropout(0.2),
    keras.layers.Dense(128, activation="relu"),
    keras.layers.BatchNormalization(),
    keras.layers.Dense(1),
])
model.summary()

steps = split // BATCH
schedule = keras.optimizers.schedules.CosineDecay(1e-3, steps * EPOCHS)
optimizer = keras.optimizers.Adam(schedule)
loss_fn = keras.losses.BinaryFocalCrossentropy(from_logits=True, gamma=2.0,
                                               apply_class_balancing=True, alpha=0.9)
mean_loss = keras.metrics.Mean()
max_norm = tf.Variable(0.0, trainable=False)
auc = keras.metrics.AUC(curve="PR", from_logits=True)


@tf.function
def train_step(xb, yb):
    with tf.GradientTape() as tape:
        logits = model(xb, training=True)
        loss = loss_fn(yb[:, None], logits)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    mean_loss.update_state(loss)
    max_norm.assign(tf.maximum(max_norm, tf.linalg.global_norm(grads)))


@tf.function
def eval_step(xb, yb):
    auc.update_state(yb[:, None], model(xb, training=False))


epoch_losses = []
for epoch in range(EPOCHS):
    mean_loss.reset_state()
    max_norm.assign(0.0)
    for xb, yb in train_ds:
        train_step(xb, yb)

    auc.reset_state()
    for xb, yb in val_ds:
        eval_step(xb, yb)

    epoch_losses.append(float(mean_loss.result()))
    print("epoch %d  loss %.5f  max grad norm %.3f  val PR-AUC %.4f"
          % (epoch + 1, epoch_losses[-1], max_norm.numpy(), auc.result()))

np.savetxt("fraud_losses.txt", epoch_losses)
model.save("card_fraud.keras")
