import argparse

import tensorflow as tf
from model import CycleGAN

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=200)
args = parser.parse_args()


def load(path):
    return tf.image.resize(tf.image.decode_jpeg(tf.io.read_file(path), 3), (256, 256)) / 127.5 - 1


def images(folder):
    files = tf.data.Dataset.list_files(folder + "/*.jpg")
    return files.map(load, num_parallel_calls=tf.data.AUTOTUNE).batch(1).prefetch(tf.data.AUTOTUNE)


gan = CycleGAN()
for epoch in range(args.epochs):
    for a, b in tf.data.Dataset.zip((images("trainA"), images("trainB"))):
        g_loss, d_loss = gan.train_step(a, b)
    print(epoch, float(g_loss), float(d_loss))
