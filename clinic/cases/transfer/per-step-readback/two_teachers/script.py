"""Semi-supervised letters: a student and two lagging teachers (mean-teacher style)."""
import time

import numpy as np
import tensorflow as tf
import keras
from keras import layers

CFG = {"pixels": 784, "width": 1024, "classes": 10, "labelled": 16, "unlabelled": 16,
       "steps": 170, "lr": 0.03, "decays": (0.99, 0.999), "consistency": 0.5}


def letters(n, seed):
    proto = np.random.default_rng(0).normal(size=(CFG["classes"], CFG["pixels"]))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CFG["classes"], n)
    x = 0.6 * proto[y] + rng.normal(size=(n, CFG["pixels"]))
    return x.astype("float32"), y.astype("int32")


def mlp():
    return keras.Sequential([
        layers.Input((CFG["pixels"],)),
        layers.Dense(CFG["width"], activation="relu"),
        layers.Dense(CFG["width"], activation="relu"),
        layers.Dense(CFG["classes"]),
    ])


class Teacher:
    def __init__(self, student, decay):
        self.net = keras.models.clone_model(student)
        self.net.set_weights(student.get_weights())
        self.net.trainable = False
        self.decay = decay

    def follow(self, student):
        mixed = [
            self.decay * t + (1.0 - self.decay) * s
            for t, s in zip(self.net.get_weights(), student.get_weights())
        ]
        self.net.set_weights(mixed)


class MeanTeacher:
    def __init__(self):
        self.student = mlp()
        self.teachers = [Teacher(self.student, d) for d in CFG["decays"]]
        self.opt = keras.optimizers.SGD(CFG["lr"])
        self.opt.build(self.student.trainable_variables)

    @tf.function
    def student_step(self, x, y, u):
        target = tf.nn.softmax(self.teachers[0].net(u))
        with tf.GradientTape() as tape:
            logits = self.student(tf.concat([x, u + 0.2 * tf.random.normal(tf.shape(u))], 0))
            sup = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits[:CFG["labelled"]]))
            con = tf.reduce_mean(tf.square(tf.nn.softmax(logits[CFG["labelled"]:]) - target))
            loss = sup + CFG["consistency"] * con
        grads = tape.gradient(loss, self.student.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.student.trainable_variables))
        return loss

    def train(self, labelled, unlabelled):
        for i, ((x, y), (u, _)) in enumerate(zip(labelled, unlabelled)):
            loss = self.student_step(x, y, u)
            for teacher in self.teachers:
                teacher.follow(self.student)
            if i % 50 == 0:
                print("step %3d  loss %.4f" % (i, float(loss)))


def stream(n, batch, seed):
    ds = tf.data.Dataset.from_tensor_slices(letters(n, seed)).cache()
    return ds.shuffle(n, seed=seed).repeat().batch(batch).prefetch(2).take(CFG["steps"])


run = MeanTeacher()
t0 = time.time()
run.train(stream(1000, CFG["labelled"], 1), stream(3000, CFG["unlabelled"], 2))
print("TRAIN_SECONDS %.2f" % (time.time() - t0))
xt, yt = letters(1000, 3)
for t in run.teachers:
    print("teacher %.3f accuracy %.3f" % (t.decay, (t.net(xt).numpy().argmax(1) == yt).mean()))
