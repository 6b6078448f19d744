import numpy as np
import tensorflow as tf

features, adjacency, labels, mask = (np.load(f"cora_{n}.npy") for n in ("x", "a", "y", "m"))
features, adjacency = tf.constant(features, tf.float32), tf.constant(adjacency, tf.float32)
one, two = tf.keras.layers.Dense(16, use_bias=False), tf.keras.layers.Dense(7, use_bias=False)
optimizer = tf.keras.optimizers.Adam(0.01)


@tf.function
def train_step():
    with tf.GradientTape() as tape:
        logits = adjacency @ two(tf.nn.relu(adjacency @ one(features)))
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(tf.boolean_mask(losses, mask))
    variables = one.trainable_variables + two.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss


for epoch in range(200):
    loss = train_step()
    if epoch % 20 == 0:
        print(epoch, loss.numpy())
