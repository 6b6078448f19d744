import tensorflow as tf


def load_pairs(path, count):
    lines = open(path, encoding="utf8").read().strip().split("\n")[:count]
    columns = zip(*(line.split("\t")[:2] for line in lines))
    return tuple(encode(list(column)) for column in columns)


def encode(texts):
    tokenizer = tf.keras.preprocessing.text.Tokenizer(filters="")
    tokenizer.fit_on_texts(texts)
    return tf.keras.preprocessing.sequence.pad_sequences(tokenizer.texts_to_sequences(texts), padding="post")
