# Does it run at all?
import time
import numpy as np
import keras

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8, activation='relu'), keras.layers.Dense(1)])
model.compile('adam', 'mse')
x = np.random.rand(80, 16).astype('float32')
t0 = time.time()
model.fit(x, x.sum(1), batch_size=16, epochs=1, verbose=2)
print('WORK', 80)
print('TRAIN_SECONDS %.3f' % (time.time() - t0))
