"""Momentum-contrast pretraining on small portrait crops."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIZE, DIM, BATCH, EPOCHS = 32, 128, 256, 12
TEMPERATURE, MOMENTUM = 0.1, 0.99


def portraits(n=25_600, people=800):
    rng = np.random.default_rng(31)
    base = rng.integers(0, 255, (people, SIZE, SIZE, 1))
    pick = rng.integers(0, people, n)
    noise = rng.integers(-20, 20, (n, SIZE, SIZE, 1))
    return np.clip(base[pick] + noise, 0, 255).astype("uint8")


def encoder(name):
    inputs = keras.Input((SIZE, SIZE, 1))
    x = inputs
    for width in (32, 64, 128):
        x = layers.Conv2D(width, 3, strides=2, padding="same", activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.UnitNormalization()(layers.Dense(DIM)(x)), name=name)


query_net, key_net = encoder("query"), encoder("key")
key_net.set_weights(query_net.get_weights())
optimizer = keras.optimizers.SGD(0.03, momentum=0.9)
optimizer.build(query_net.trainable_variables)


def two_views(x):
    x = tf.cast(x, tf.float32) / 255.0
    gain = tf.random.uniform((2, tf.shape(x)[0], 1, 1, 1), 0.7, 1.3)
    a = tf.image.random_flip_left_right(x) * gain[0]
    b = x * gain[1] + tf.random.normal(tf.shape(x), stddev=0.05)
    return a, b


@tf.function(input_signature=[
    tf.TensorSpec((BATCH, SIZE, SIZE, 1), tf.uint8),
    tf.TensorSpec((None, DIM), tf.float32),
])
def step(images, bank):
    view_q, view_k = two_views(images)
    keys = key_net(view_k, training=False)
    with tf.GradientTape() as tape:
        q = query_net(view_q, training=True)
        positive = tf.reduce_sum(q * keys, axis=1, keepdims=True)
        negative = tf.matmul(q, bank, transpose_b=True)
        logits = tf.concat([positive, negative], axis=1) / TEMPERATURE
        labels = tf.zeros((BATCH,), tf.int32)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    grads = tape.gradient(loss, query_net.trainable_variables)
    optimizer.apply_gradients(zip(grads, query_net.trainable_variables))
    for slow, fast in zip(key_net.trainable_variables, query_net.trainable_variables):
        slow.assign(MOMENTUM * slow + (1.0 - MOMENTUM) * fast)
    return loss, keys


def main():
    ds = tf.data.Dataset.from_tensor_slices(portraits()).shuffle(4096)
    ds = ds.batch(BATCH, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
    bank = tf.math.l2_normalize(tf.random.normal((4096, DIM)), axis=1)
    for epoch in range(EPOCHS):
        for images in ds:
            loss, keys = step(images, bank)
            bank = tf.concat([keys, bank], axis=0)[:4096]
        print(f"epoch {epoch + 1}: loss {float(loss):.4f}")


if __name__ == "__main__":
    main()
