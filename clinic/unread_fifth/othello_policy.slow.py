import argparse

import numpy as np
import keras
import tensorflow as tf
from keras import layers

MOVES = 65     # 64 squares + pass


def residual(x, filters):
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    y = layers.BatchNormalization()(y)
    y = layers.Activation("relu")(y)
    y = layers.Conv2D(filters, 3, padding="same", use_bias=False)(y)
    y = layers.BatchNormalization()(y)
    return layers.Activation("relu")(layers.Add()([x, y]))


def tower(blocks, filters):
    planes = keras.Input((8, 8, 2), dtype="uint8")
    x = layers.Rescaling(1.0)(planes)
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    for _ in range(blocks):
        x = residual(x, filters)
    p = layers.Conv2D(2, 1, activation="relu")(x)
    logits = layers.Dense(MOVES)(layers.Flatten()(p))
    v = layers.Conv2D(1, 1, activation="relu")(x)
    v = layers.Dense(64, activation="relu")(layers.Flatten()(v))
    value = layers.Dense(1, activation="tanh")(v)
    return keras.Model(planes, [logits, value])


class ActorCritic(keras.Model):
    def __init__(self, net, entropy_weight, value_weight=0.5):
        super().__init__()
        self.net = net
        self.entropy_weight = entropy_weight
        self.value_weight = value_weight
        self.trackers = {k: keras.metrics.Mean(name=k) for k in ("loss", "policy", "value", "entropy")}

    @property
    def metrics(self):
        return list(self.trackers.values())

    def call(self, planes, training=False):
        return self.net(planes, training=training)

    def train_step(self, data):
        (planes, legal), (move, outcome) = data
        legal = tf.cast(legal, tf.float32)
        with tf.GradientTape() as tape:
            logits, value = self.net(planes, training=True)
            value = tf.squeeze(value, -1)
            probs = tf.nn.softmax(logits) * legal
            probs = probs / tf.reduce_sum(probs, axis=-1, keepdims=True)
            log_probs = tf.math.log(probs)
            taken = tf.gather(log_probs, move, batch_dims=1)
            advantage = tf.stop_gradient(outcome - value)
            policy = -tf.reduce_mean(advantage * taken)
            entropy = -tf.reduce_mean(tf.reduce_sum(probs * log_probs, axis=-1))
            v_loss = tf.reduce_mean(tf.square(outcome - value))
            loss = policy + self.value_weight * v_loss - self.entropy_weight * entropy
        grads = tape.gradient(loss, self.net.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.net.trainable_variables))
        for name, x in (("loss", loss), ("policy", policy), ("value", v_loss), ("entropy", entropy)):
            self.trackers[name].update_state(x)
        return {m.name: m.result() for m in self.metrics}


def positions(path, batch_size):
    z = np.load(path)
    planes = z["planes"].astype(np.uint8)          # (N, 8, 8, 2)
    legal = z["legal"].astype(np.uint8)            # (N, 65), at least one per row
    move = z["move"].astype(np.int32)
    outcome = z["outcome"].astype(np.float32)      # -1, 0, 1 for the side to move
    print(f"{len(move)} positions, {legal.sum(1).mean():.1f} legal moves on average")
    ds = tf.data.Dataset.from_tensor_slices(((planes, legal), (move, outcome)))
    ds = ds.shuffle(20000).batch(batch_size, drop_remainder=True)
    return ds.prefetch(tf.data.AUTOTUNE)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--games", default="selfplay_gen12.npz")
    ap.add_argument("--epochs", type=int, default=15)
    ap.add_argument("--batch-size", type=int, default=1024)
    ap.add_argument("--blocks", type=int, default=8)
    ap.add_argument("--filters", type=int, default=128)
    ap.add_argument("--entropy", type=float, default=0.01)
    ap.add_argument("--out", default="othello_gen13.keras")
    args = ap.parse_args()

    net = tower(args.blocks, args.filters)
    agent = ActorCritic(net, args.entropy)
    agent.compile(optimizer=keras.optimizers.Adam(5e-4, clipnorm=1.0))
    agent.fit(positions(args.games, args.batch_size), epochs=args.epochs, verbose=2)
    net.save(args.out)


if __name__ == "__main__":
    main()
