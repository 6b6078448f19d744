import tensorflow as tf

tf.config.run_functions_eagerly(True)
(x, y), (xt, yt) = tf.keras.datasets.fashion_mnist.load_data()
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(128, activation="relu"), tf.keras.layers.Dense(10)])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x / 255.0, y, epochs=10)
model.evaluate(xt / 255.0, yt)
