# Two spirals.
import time
import numpy as np
import tensorflow as tf

n = 2500
t = np.sqrt(np.random.rand(n)) * 9
s = np.random.choice([-1, 1], n)
points = np.stack([s * t * np.cos(t), s * t * np.sin(t)], 1).astype('float32') / 9
arm = (s > 0).astype('float32')

batch_size = 50
train = tf.data.Dataset.from_tensor_slices((points, arm)).shuffle(n).repeat().batch(batch_size).prefetch(2)

model = tf.keras.Sequential([
    tf.keras.layers.Input((2,)),
    tf.keras.layers.Dense(24, activation='tanh'),
    tf.keras.layers.Dense(24, activation='tanh'),
    tf.keras.layers.Dense(1, activation='sigmoid'),
])
model.compile(optimizer='adam', loss='binary_crossentropy', metrics=['accuracy'])

start = time.time()
model.fit(train, steps_per_epoch=len(points), epochs=3, verbose=2)
print('WORK', 3 * n)
print('TRAIN_SECONDS %.3f' % (time.time() - start))
