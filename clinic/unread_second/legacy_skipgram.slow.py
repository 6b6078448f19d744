"""word2vec, carried over from our TF1 code base via compat.v1."""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

VOCAB = 10000
DIM = 64
BATCH = 256
NEG = 32
STEPS = 30000
LR0, LR1 = 0.5, 0.01
LOG = 2000


def corpus(n=400_000):
    rng = np.random.RandomState(0)
    topics = rng.randint(0, 100, n // 20).repeat(20)
    return (topics * 100 + rng.zipf(1.5, topics.size) % 100).astype(np.int32)


class PairFeeder:
    def __init__(self, tokens, window=4):
        self.tokens = tokens
        self.window = window
        self.rng = np.random.RandomState(1)

    def next(self):
        c = self.rng.randint(self.window, len(self.tokens) - self.window, BATCH)
        off = self.rng.randint(1, self.window + 1, BATCH)
        off *= self.rng.choice([-1, 1], BATCH)
        return self.tokens[c], self.tokens[c + off][:, None]


def build_graph():
    g = {}
    g["center"] = tf.placeholder(tf.int32, [None], name="center")
    g["context"] = tf.placeholder(tf.int64, [None, 1], name="context")
    with tf.variable_scope("w2v"):
        emb = tf.get_variable("emb", [VOCAB, DIM], initializer=tf.random_uniform_initializer(-0.5, 0.5))
        out = tf.get_variable("out", [VOCAB, DIM], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [VOCAB], initializer=tf.zeros_initializer())
        g["lr"] = tf.get_variable("lr", [], initializer=tf.constant_initializer(LR0), trainable=False)
    h = tf.nn.embedding_lookup(emb, g["center"])
    g["loss"] = tf.reduce_mean(
        tf.nn.sampled_softmax_loss(out, bias, g["context"], h, NEG, VOCAB))
    g["train"] = tf.train.GradientDescentOptimizer(g["lr"]).minimize(g["loss"])
    g["emb"] = emb
    g["init"] = tf.global_variables_initializer()
    return g


def main():
    feeder = PairFeeder(corpus())
    g = build_graph()
    with tf.Session() as sess:
        sess.run(g["init"])
        for step in range(1, STEPS + 1):
            center, context = feeder.next()
            lr = LR1 + (LR0 - LR1) * (1 - step / STEPS)
            sess.run(tf.assign(g["lr"], lr))
            feed = {g["center"]: center, g["context"]: context}
            sess.run(g["train"], feed)
            if step % LOG == 0:
                print("step %d  lr %.4f  loss %.4f" % (step, lr, sess.run(g["loss"], feed)))
        vecs = sess.run(g["emb"])
    print("embedding norm", np.linalg.norm(vecs, axis=1).mean())


if __name__ == "__main__":
    main()
