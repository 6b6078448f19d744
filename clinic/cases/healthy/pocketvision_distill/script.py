"""A pocket-size student learns from a frozen teacher on mixed-up images (the mix is new each time, so is the teacher's view)."""
import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers


def stack(filters, name):
    net = keras.Sequential([keras.Input((40, 40, 3))], name=name)
    for i, f in enumerate(filters):
        net.add(layers.Conv2D(f, 3, strides=1 if i == 0 else 2, padding="same", activation="relu"))
    net.add(layers.GlobalAveragePooling2D())
    net.add(layers.Dense(10))
    return net


class Distiller(keras.Model):
    def __init__(self, student, teacher, temperature=4.0):
        super().__init__()
        self.student, self.teacher, self.temperature = student, teacher, temperature
        teacher.trainable = False
        self.seen = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.seen]

    def train_step(self, images):
        lam = tf.random.uniform([])
        mixed = lam * images + (1.0 - lam) * tf.reverse(images, [0])
        soft = tf.nn.softmax(self.teacher(mixed, training=False) / self.temperature)
        with tf.GradientTape() as tape:
            logits = self.student(mixed, training=True) / self.temperature
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(soft, logits))
        grads = tape.gradient(loss, self.student.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.student.trainable_variables))
        self.seen.update_state(loss)
        return {"loss": self.seen.result()}


images = np.random.default_rng(1).random((1920, 40, 40, 3)).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(images).shuffle(1920).batch(48, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
model = Distiller(stack((16, 32, 64), "student"), stack((48, 96, 128), "teacher"))
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9))
model.fit(ds, epochs=3, verbose=2)
