# Stream of machine readings: the model is updated with every small chunk that arrives.
import time
import numpy as np
import tensorflow as tf

model = tf.keras.models.Sequential([
    tf.keras.layers.Input((20,)),
    tf.keras.layers.Dense(32, activation='relu'),
    tf.keras.layers.Dense(1),
])
model.compile(optimizer='sgd', loss='mse')

def chunks(n):
    r = np.random.RandomState(0)
    for _ in range(n):
        x = r.rand(16, 20).astype('float32')
        yield x, x.sum(1, keepdims=True) / 20

for x, y in chunks(1):
    model.fit(x, y, epochs=1, verbose=0)
    model.train_on_batch(x, y)

t0 = time.time()
for i, (x, y) in enumerate(chunks(120)):
    model.fit(x, y, epochs=1, verbose=0)
    if i % 40 == 0:
        print('chunk', i)
print('WORK', 120 * 16)
print('TRAIN_SECONDS %.3f' % (time.time() - t0))
