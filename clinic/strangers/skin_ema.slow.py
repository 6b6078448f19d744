"""Skin lesion features, trained with a moving average of the weights."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(37)
rng = np.random.default_rng(37)

features = rng.normal(0, 1, (2400, 1024)).astype("float32")
lesion = (features[:, :20].sum(1) > 0).astype("float32")


class WeightAverage(tf.keras.callbacks.Callback):
    def __init__(self, decay=0.995):
        super().__init__()
        self.decay = decay
        self.shadow = None
        self.backup = None

    def on_train_begin(self, logs=None):
        self.shadow = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        current = self.model.get_weights()
        self.shadow = [
            self.decay * s + (1 - self.decay) * c
            for s, c in zip(self.shadow, current)
        ]

    def on_test_begin(self, logs=None):
        self.backup = self.model.get_weights()
        self.model.set_weights(self.shadow)

    def on_test_end(self, logs=None):
        self.model.set_weights(self.backup)


model = tf.keras.Sequential([
    tf.keras.layers.Input((1024,)),
    tf.keras.layers.Dense(2048, activation="relu"),
    tf.keras.layers.Dropout(0.4),
    tf.keras.layers.Dense(1024, activation="relu"),
    tf.keras.layers.Dropout(0.4),
    tf.keras.layers.Dense(1),
])
model.compile(
    optimizer=tf.keras.optimizers.SGD(0.02),
    loss=tf.keras.losses.BinaryCrossentropy(from_logits=True),
)
model.fit(
    features[:2048], lesion[:2048],
    validation_data=(features[2048:], lesion[2048:]),
    batch_size=32,
    epochs=5,
    callbacks=[WeightAverage()],
    verbose=2,
)
