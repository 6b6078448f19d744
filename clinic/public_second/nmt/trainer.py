import tensorflow as tf


class Trainer:
    def __init__(self, encoder, decoder, vocab):
        self.encoder, self.decoder = encoder, decoder
        self.optimizer = tf.keras.optimizers.Adam()
        self.loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def loss_function(self, real, pred):
        mask = tf.cast(tf.math.not_equal(real, 0), tf.float32)
        return tf.reduce_mean(self.loss_object(real, pred) * mask)

    def train_step(self, inp, targ):
        loss = 0.0
        with tf.GradientTape() as tape:
            output, hidden = self.encoder(inp)
            for t in range(1, targ.shape[1]):
                predictions, hidden = self.decoder(targ[:, t - 1 : t], hidden, output)
                loss += self.loss_function(targ[:, t], predictions)
        variables = self.encoder.trainable_variables + self.decoder.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss / int(targ.shape[1])

    def train(self, dataset, epochs):
        for epoch in range(epochs):
            total = 0.0
            for batch, (inp, targ) in enumerate(dataset):
                total += self.train_step(inp, targ).numpy()
            print(epoch, total / (batch + 1))
