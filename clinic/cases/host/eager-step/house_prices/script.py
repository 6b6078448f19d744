# House price regression, Keras fit on arrays.
import time
import numpy as np
from tensorflow import keras

X = np.random.rand(4800, 30).astype('float32')
price = (X @ np.random.rand(30, 1)).astype('float32')

model = keras.Sequential()
model.add(keras.layers.Input((30,)))
for width in (64, 64, 32):
    model.add(keras.layers.Dense(width))
    model.add(keras.layers.BatchNormalization())
    model.add(keras.layers.Activation('relu'))
    model.add(keras.layers.Dropout(0.1))
model.add(keras.layers.Dense(1))
model.compile(optimizer='adam', loss='mae', metrics=['mse'], run_eagerly=True)

model.fit(X[:320], price[:320], batch_size=32, epochs=1, verbose=0)
t0 = time.time()
model.fit(X, price, batch_size=32, epochs=1, shuffle=True, verbose=2)
print('WORK', len(X))
print('TRAIN_SECONDS %.3f' % (time.time() - t0))
