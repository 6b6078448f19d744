# Ten-class problem with a small data set and a compiled training step.
import tensorflow as tf
import numpy as np
import time

train_data = np.random.rand(1000, 100).astype('float32')
train_labels = np.random.randint(0, 10, 1000)

model = tf.keras.Sequential([
    tf.keras.layers.Input((100,)),
    tf.keras.layers.Dense(128, activation='relu'),
    tf.keras.layers.Dense(10, activation='softmax')
])
optimizer = tf.keras.optimizers.Adam(0.001)
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy()

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        probs = model(x)
        loss = loss_fn(y, probs)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
    return loss

size = 10
train_step(train_data[:size], train_labels[:size])

start = time.time()
for epoch in range(64):
    for i in range(0, 1000, size):
        loss = train_step(train_data[i:i + size], train_labels[i:i + size]).numpy()
end = time.time()
print(f"last loss {loss:.4f}")
print('WORK', 64 * 1000)
print(f"TRAIN_SECONDS {end - start:.3f}")
