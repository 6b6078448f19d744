# Dense network on 28x28 digits.
import time
import numpy as np
import tensorflow as tf

x_train = np.random.rand(36000, 784).astype('float32')
y_train = np.random.randint(0, 10, 36000)

model = tf.keras.models.Sequential([
    tf.keras.layers.Input((784,)),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(10, activation='softmax')
])
model.compile(optimizer='adam', loss='sparse_categorical_crossentropy')

batch_size = 8
model.fit(x_train[:800], y_train[:800], epochs=1, batch_size=batch_size, verbose=0)
start_time = time.time()
model.fit(x_train, y_train, epochs=1, batch_size=batch_size, verbose=2)
end_time = time.time()
print('WORK', 36000)
print(f"TRAIN_SECONDS {end_time - start_time:.3f}")
