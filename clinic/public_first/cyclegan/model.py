import tensorflow as tf


class CycleGAN:
    def __init__(self, lr=2e-4):
        self.g_ab, self.g_ba = self.unet(), self.unet()
        self.d_a = tf.keras.Sequential([tf.keras.layers.Conv2D(64, 4, 2), tf.keras.layers.Conv2D(1, 4)])
        self.g_opt, self.d_opt = tf.keras.optimizers.Adam(lr, 0.5), tf.keras.optimizers.Adam(lr, 0.5)

    def unet(self):
        return tf.keras.Sequential([tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu"), tf.keras.layers.Conv2D(3, 3, padding="same")])

    @tf.function
    def train_step(self, a, b):
        with tf.GradientTape(persistent=True) as tape:
            fake_a = self.g_ba(b)
            cycle = tf.reduce_mean(tf.abs(self.g_ab(fake_a) - b))
            g_loss = tf.reduce_mean((self.d_a(fake_a) - 1) ** 2) + 10 * cycle
            d_loss = tf.reduce_mean((self.d_a(a) - 1) ** 2) + tf.reduce_mean(self.d_a(fake_a) ** 2)
        variables = self.g_ab.trainable_variables + self.g_ba.trainable_variables
        self.g_opt.apply_gradients(zip(tape.gradient(g_loss, variables), variables))
        self.d_opt.apply_gradients(zip(tape.gradient(d_loss, self.d_a.trainable_variables), self.d_a.trainable_variables))
        return g_loss, d_loss
