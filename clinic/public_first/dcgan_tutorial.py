import tensorflow as tf
from tensorflow.keras import layers

(train_images, _), _ = tf.keras.datasets.mnist.load_data()
train_images = (train_images.reshape(-1, 28, 28, 1).astype("float32") - 127.5) / 127.5
train_dataset = tf.data.Dataset.from_tensor_slices(train_images).shuffle(60000).batch(256)
generator = tf.keras.Sequential([layers.Dense(7 * 7 * 64, input_shape=(100,)), layers.Reshape((7, 7, 64)), layers.Conv2DTranspose(32, 5, 2, "same"), layers.LeakyReLU(), layers.Conv2DTranspose(1, 5, 2, "same", activation="tanh")])
discriminator = tf.keras.Sequential([layers.Conv2D(64, 5, 2, "same", input_shape=(28, 28, 1)), layers.LeakyReLU(), layers.Flatten(), layers.Dense(1)])
cross_entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer, discriminator_optimizer = tf.keras.optimizers.Adam(1e-4), tf.keras.optimizers.Adam(1e-4)


@tf.function
def train_step(images):
    noise = tf.random.normal([256, 100])
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        real, fake = discriminator(images, training=True), discriminator(generator(noise, training=True), training=True)
        gen_loss = cross_entropy(tf.ones_like(fake), fake)
        disc_loss = cross_entropy(tf.ones_like(real), real) + cross_entropy(tf.zeros_like(fake), fake)
    generator_optimizer.apply_gradients(zip(gen_tape.gradient(gen_loss, generator.trainable_variables), generator.trainable_variables))
    discriminator_optimizer.apply_gradients(zip(disc_tape.gradient(disc_loss, discriminator.trainable_variables), discriminator.trainable_variables))


for epoch in range(50):
    for image_batch in train_dataset:
        train_step(image_batch)
    print("epoch", epoch)
