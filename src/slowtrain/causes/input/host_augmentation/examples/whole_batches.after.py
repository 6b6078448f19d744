import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
x, y = np.random.rand(256, 32, 32, 3).astype("float32"), np.random.rand(256)
augment = keras.Sequential(
    [keras.layers.RandomFlip("horizontal"), keras.layers.RandomRotation(0.1), keras.layers.RandomZoom(0.1)]
)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
ds = ds.prefetch(2)
model = keras.Sequential([keras.Input((32, 32, 3)), augment, keras.layers.Flatten(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(ds)
