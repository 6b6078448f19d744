"""Stratum age from fossil sequences of many lengths, bucketed by length."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(131)
rng = np.random.default_rng(131)

TAXA, AGES, BATCH = 300, 8, 64
sections = []
for _ in range(5000):
    age = rng.integers(0, AGES)
    length = int(rng.integers(10, 80))
    taxa = (age * 30 + rng.integers(0, 90, length)) % (TAXA - 1) + 1
    sections.append((taxa.astype("int32"), age))

ragged = tf.ragged.constant([t.tolist() for t, _ in sections], dtype=tf.int32)
ages = tf.constant([a for _, a in sections], tf.int32)

train = tf.data.Dataset.from_tensor_slices((ragged, ages))
train = train.map(lambda t, a: (tf.convert_to_tensor(t), a)).cache().shuffle(5000, seed=1)
train = train.bucket_by_sequence_length(
    element_length_func=lambda t, a: tf.shape(t)[0],
    bucket_boundaries=[21, 41, 61],
    bucket_batch_sizes=[BATCH] * 4,
    padded_shapes=([None], []),
).prefetch(4)

net = tf.keras.Sequential([
    tf.keras.layers.Embedding(TAXA, 64, mask_zero=False),
    tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
    tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
    tf.keras.layers.Conv1D(128, 5, padding="same", activation="relu"),
    tf.keras.layers.GlobalMaxPooling1D(),
    tf.keras.layers.Dense(AGES),
])
net.build((None, None))
optimizer = tf.keras.optimizers.Adam(1e-3)
mean_loss = tf.keras.metrics.Mean()


@tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)])
def train_step(taxa, age):
    with tf.GradientTape() as tape:
        logits = net(taxa, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(age, logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    mean_loss.update_state(loss)


for epoch in range(2):
    mean_loss.reset_state()
    for taxa, age in train:
        train_step(taxa, age)
    print("epoch", epoch, "loss", float(mean_loss.result()))
