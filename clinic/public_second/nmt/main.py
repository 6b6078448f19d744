import tensorflow as tf
from models import Decoder, Encoder
from preprocess import load_pairs
from trainer import Trainer

source, target = load_pairs("fra.txt", 30000)
dataset = tf.data.Dataset.from_tensor_slices((source, target)).shuffle(30000).batch(64, drop_remainder=True)
Trainer(Encoder(9000, 1024), Decoder(9000, 1024), 9000).train(dataset, 10)
