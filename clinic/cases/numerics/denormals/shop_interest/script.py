"""Session recommender: a fading interest profile per shopper (kept on the host) feeds a small scoring network."""
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import numpy as np
import tensorflow as tf

SHOPPERS, TOPICS, BATCH = 12000, 64, 256


class Profiles:
    def __init__(self, fade=0.7):
        self.state = np.random.default_rng(0).random((SHOPPERS, TOPICS), dtype=np.float32)
        self.fade = np.float32(fade)

    def tick(self, who, topic):
        self.state *= self.fade
        np.add.at(self.state, (who, topic), np.float32(1))

    def of(self, who):
        return self.state[who]


class Clicks:
    def __init__(self):
        self.rng = np.random.default_rng(17)
        self.taste = self.rng.integers(0, TOPICS, SHOPPERS)

    def draw(self):
        who = np.minimum(self.rng.zipf(1.4, BATCH), SHOPPERS) - 1
        topic = np.where(self.rng.random(BATCH) < 0.6, self.taste[who], self.rng.integers(0, TOPICS, BATCH))
        return who, topic


net = tf.keras.Sequential([tf.keras.layers.Input((TOPICS,)), tf.keras.layers.Dense(96, activation="relu"),
                           tf.keras.layers.Dense(TOPICS)])
opt = tf.keras.optimizers.Adam(2e-3)


@tf.function
def learn(profile, topic):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(topic, net(profile)))
    opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))
    return loss


profiles, clicks = Profiles(), Clicks()
for day in range(1200):
    who, topic = clicks.draw()
    loss = learn(tf.constant(profiles.of(who)), tf.constant(topic))
    profiles.tick(who, topic)
    if day % 150 == 0:
        print("tick", day, "loss", float(loss), flush=True)
