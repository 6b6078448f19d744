import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x, y = np.random.rand(640, 4), np.random.rand(640, 1)
x, y = x.astype("float32"), y.astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(32)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds, steps_per_epoch=len(x), epochs=2)
