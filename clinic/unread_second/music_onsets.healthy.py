"""Note-onset detection on mel frames with a hand-written loop."""
import gc

import keras
import numpy as np
import tensorflow as tf
from keras import layers

FRAMES, BANDS, NOTES = 64, 80, 88
BATCH, EPOCHS, LOG_EVERY = 128, 8, 100


def excerpts(n, seed):
    rng = np.random.default_rng(seed)
    roll = rng.random((n, NOTES)) < 0.05
    basis = np.random.default_rng(77).random((NOTES, BANDS)) ** 4
    mel = (roll @ basis)[:, None, :] * np.hanning(FRAMES)[None, :, None]
    mel = mel + rng.normal(0, 0.05, (n, FRAMES, BANDS))
    return mel.astype("float32"), roll.astype("float32")


def build():
    inputs = keras.Input((FRAMES, BANDS))
    x = layers.Conv1D(128, 5, padding="same", activation="relu")(inputs)
    skip = x
    for dilation in (1, 2, 4, 8):
        x = layers.Conv1D(128, 3, padding="same", dilation_rate=dilation, activation="relu")(x)
        x = skip = layers.Add()([x, skip])
    x = layers.GlobalMaxPooling1D()(x)
    return keras.Model(inputs, layers.Dense(NOTES)(layers.Dropout(0.2)(x)))


model = build()
optimizer = keras.optimizers.Adam(1e-3)
optimizer.build(model.trainable_variables)
ema = [tf.Variable(v.value, trainable=False) for v in model.trainable_variables]
recall = keras.metrics.Recall(thresholds=0.5)


@tf.function
def step(x, y, pos_weight, warm):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y, logits, pos_weight))
        if warm:
            loss += 1e-5 * tf.add_n([tf.nn.l2_loss(v.value) for v in model.trainable_variables])
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    for average, v in zip(ema, model.trainable_variables):
        average.assign_add(0.001 * (v.value - average))
    return loss


@tf.function
def score(x, y):
    recall.update_state(y, tf.sigmoid(model(x, training=False)))


def main():
    train = tf.data.Dataset.from_tensor_slices(excerpts(20_000, 0)).shuffle(2048)
    train = train.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    held_out = tf.data.Dataset.from_tensor_slices(excerpts(1024, 1)).batch(512).prefetch(1)
    history, count = [], 0
    for epoch in range(EPOCHS):
        pos_weight = tf.constant(10.0 - epoch, tf.float32)
        losses = []
        for x, y in train:
            losses.append(step(x, y, pos_weight, epoch < 2))
            count += 1
            if count % LOG_EVERY == 0:
                print(f"step {count} loss {float(losses[-1]):.4f}")
        recall.reset_state()
        for x, y in held_out:
            score(x, y)
        history.append((float(tf.reduce_mean(losses)), float(recall.result())))
        gc.collect()
        print("epoch {}: loss {:.4f} recall {:.3f}".format(epoch, *history[-1]))
    for average, v in zip(ema, model.trainable_variables):
        v.assign(average)


if __name__ == "__main__":
    main()
