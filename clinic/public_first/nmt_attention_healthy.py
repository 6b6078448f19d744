import time

import tensorflow as tf
from data import load_dataset

dataset, units, vocab = load_dataset("spa.txt"), 1024, 9000
encoder = tf.keras.Sequential([tf.keras.layers.Embedding(vocab, 256), tf.keras.layers.GRU(units, return_sequences=True)])
cell = tf.keras.layers.GRU(units, return_state=True)
embed, out = tf.keras.layers.Embedding(vocab, 256), tf.keras.layers.Dense(vocab)
optimizer = tf.keras.optimizers.Adam()
crossentropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def train_step(source, target):
    with tf.GradientTape() as tape:
        states = encoder(source)
        hidden = states[:, -1]
        given = embed(target[:, :-1])
        outputs, _ = cell(given, initial_state=hidden)[0], None
        loss = crossentropy(target[:, -1], out(outputs))
    variables = encoder.trainable_variables + cell.trainable_variables + out.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


for epoch in range(10):
    start, total = time.time(), 0.0
    for batch, (source, target) in enumerate(dataset):
        loss = train_step(source, target)
        total += loss
        if batch % 100 == 0:
            print(epoch, batch, loss.numpy())
    print(epoch, time.time() - start)
