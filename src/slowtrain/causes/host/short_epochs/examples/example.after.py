import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x = np.random.rand(60, 8).astype("float32")
ds = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(60)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds.repeat(), epochs=300, verbose=0, steps_per_epoch=len(ds))
