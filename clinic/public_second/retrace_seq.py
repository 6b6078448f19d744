import numpy as np
import tensorflow as tf

sentences = np.load("sentences.npy", allow_pickle=True)
model = tf.keras.Sequential([tf.keras.layers.Embedding(5000, 64), tf.keras.layers.LSTM(64, return_sequences=True), tf.keras.layers.Dense(5000)])
optimizer = tf.keras.optimizers.Adam()


@tf.function
def train_step(x, epoch, lr):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(x[:, 1:], model(x[:, :-1]), from_logits=True))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss * lr


for epoch in range(10):
    for i, sentence in enumerate(sentences):
        loss = train_step(tf.constant([sentence]), i, 1.0 / (1 + i))
    print(epoch, float(loss))
