# Digits with a dense network.
import time
import numpy as np
import tensorflow as tf

x_train = np.random.rand(3000, 784).astype('float32')
y_train = tf.keras.utils.to_categorical(np.random.randint(0, 10, 3000), 10)

model = tf.keras.models.Sequential([
  tf.keras.layers.Input(shape=(784,)),
  tf.keras.layers.Dense(128, activation='relu'),
  tf.keras.layers.Dense(10, activation='softmax')
])

model.compile(optimizer='adam',
              loss='categorical_crossentropy',
              metrics=['accuracy'])

BATCH = 1
model.fit(x_train[:BATCH * 5], y_train[:BATCH * 5], epochs=1, batch_size=BATCH, verbose=2)
t = time.time()
model.fit(x_train, y_train, epochs=2, batch_size=BATCH, verbose=2)
t = time.time() - t
print('WORK', 2 * 3000)
print('TRAIN_SECONDS %.3f' % t)
