"""Counts cell nuclei in stained tissue by regressing a density map."""
import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SIDE, BATCH, EPOCHS, SLIDES = 128, 8, 7, 92


def draw_slides(n, seed=31):
    rng = np.random.default_rng(seed)
    images = rng.normal(0.8, 0.05, (n, SIDE, SIDE, 3)).astype(np.float32)
    density = np.zeros((n, SIDE // 4, SIDE // 4, 1), np.float32)
    for image, target in zip(images, density):
        for y, x in rng.integers(4, SIDE - 4, (rng.integers(8, 25), 2)):
            image[y - 3:y + 3, x - 3:x + 3] *= (0.5, 0.3, 0.7)
            target[y // 4, x // 4] += 1.0
    return images, density


def mirror(image, target):
    if np.random.random() < 0.5:
        return image[:, ::-1], target[:, ::-1]
    return image, target


def augment(image, target):
    a, b = tf.numpy_function(mirror, [image, target], (tf.float32, tf.float32))
    a.set_shape(image.shape)
    b.set_shape(target.shape)
    return a, b


class DensityNet(keras.Model):
    def __init__(self):
        super().__init__()
        self.stages = [
            layers.Conv2D(24, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
        ]
        self.head = layers.Conv2D(1, 1)

    def call(self, x):
        for stage in self.stages:
            x = stage(x)
        return self.head(x)


class Counter:
    def __init__(self):
        self.net = DensityNet()
        self.net(tf.zeros((1, SIDE, SIDE, 3)))
        self.optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
        self.optimizer.build(self.net.trainable_variables)

    @tf.function
    def step(self, images, density):
        with tf.GradientTape() as tape:
            error = self.net(images, training=True) - density
            loss = tf.reduce_mean(tf.square(error))
        variables = self.net.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def train(self, dataset):
        seen = 0
        for epoch in range(EPOCHS):
            total = tf.zeros(())
            for images, density in dataset:
                total += self.step(images, density)
                seen += images.shape[0]
            print(f"epoch {epoch + 1}: {total.numpy():.4f}")
        return seen


def main():
    keras.utils.set_random_seed(2)
    images, density = draw_slides(SLIDES)
    dataset = (tf.data.Dataset.from_tensor_slices((images, density))
               .shuffle(SLIDES).map(augment, num_parallel_calls=2)
               .batch(BATCH).prefetch(tf.data.AUTOTUNE))
    counter = Counter()
    t0 = time.perf_counter()
    seen = counter.train(dataset)
    seconds = time.perf_counter() - t0
    print("WORK", seen)
    print(f"TRAIN_SECONDS {seconds:.3f}")


if __name__ == "__main__":
    main()
