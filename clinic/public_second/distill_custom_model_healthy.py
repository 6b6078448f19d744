import tensorflow as tf
from tensorflow import keras


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher

    def compile(self, optimizer, metrics, student_loss, distill_loss, alpha=0.1, temperature=3):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss, self.distill_loss = student_loss, distill_loss
        self.alpha, self.temperature = alpha, temperature

    def train_step(self, data):
        x, y = data
        soft = self.teacher(x, training=False)
        with tf.GradientTape() as tape:
            hard = self.student(x, training=True)
            loss = self.alpha * self.student_loss(y, hard)
            loss += (1 - self.alpha) * self.distill_loss(tf.nn.softmax(soft / self.temperature), tf.nn.softmax(hard / self.temperature))
        grads = tape.gradient(loss, self.student.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.student.trainable_variables))
        return {"loss": loss}


(x, y), _ = keras.datasets.cifar10.load_data()
x = x.astype("float32") / 255.0
net = lambda n: keras.Sequential([keras.layers.Conv2D(n, 3, 2, activation="relu", input_shape=(32, 32, 3)), keras.layers.Flatten(), keras.layers.Dense(10)])
distiller = Distiller(net(64), net(256))
distiller.compile(keras.optimizers.Adam(), [], keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.losses.KLDivergence())
distiller.fit(x, y, epochs=5, batch_size=64)
