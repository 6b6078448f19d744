"""Character CTC model on parliament recordings.

Each record holds a float16 log-mel matrix and the character ids of its transcript.
"""
import argparse
import pathlib

import keras
import tensorflow as tf
from keras import layers

N_MELS = 80
VOCAB = 34               # characters; the blank comes after them
MAX_FRAMES = 2000


def parse(record):
    ex = tf.io.parse_single_example(record, {
        "mel": tf.io.FixedLenFeature([], tf.string),
        "chars": tf.io.VarLenFeature(tf.int64),
    })
    mel = tf.reshape(tf.io.decode_raw(ex["mel"], tf.float16), [-1, N_MELS])
    chars = tf.sparse.to_dense(ex["chars"])
    x = {"mel": mel, "frames": tf.shape(mel)[0]}
    y = {"chars": chars, "length": tf.shape(chars, out_type=tf.int64)[0]}
    return x, y


def dataset(pattern, training):
    ds = tf.data.TFRecordDataset(tf.io.gfile.glob(pattern), num_parallel_reads=tf.data.AUTOTUNE)
    if training:
        ds = ds.shuffle(4096)
    ds = ds.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    ds = ds.filter(lambda x, y: (x["frames"] < MAX_FRAMES) & (y["length"] <= 250))
    ds = ds.bucket_by_sequence_length(
        lambda x, y: x["frames"],
        bucket_boundaries=[500, 900, 1300, 1650, MAX_FRAMES],
        bucket_batch_sizes=[128, 96, 64, 48, 40, 1],
        drop_remainder=training,
    )
    return ds.prefetch(tf.data.AUTOTUNE)


class CharErrorRate(keras.metrics.Metric):
    def __init__(self, beam_width=64, name="cer", **kwargs):
        super().__init__(name=name, **kwargs)
        self.beam_width = beam_width
        self.edits = self.add_weight(name="edits", initializer="zeros")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, truth, logits, steps):
        paths, _ = tf.nn.ctc_beam_search_decoder(
            tf.transpose(logits, [1, 0, 2]), steps, beam_width=self.beam_width, top_paths=1)
        edits = tf.edit_distance(paths[0], truth, normalize=False)
        self.edits.assign_add(tf.reduce_sum(edits))
        self.total.assign_add(tf.cast(tf.size(truth.values), tf.float32))

    def result(self):
        return self.edits / tf.maximum(self.total, 1.0)


class Block(layers.Layer):
    def __init__(self, dim, heads, dropout, **kwargs):
        super().__init__(**kwargs)
        self.ln1 = layers.LayerNormalization()
        self.mha = layers.MultiHeadAttention(heads, dim // heads, dropout=dropout)
        self.ln2 = layers.LayerNormalization()
        self.up = layers.Dense(4 * dim, activation="gelu")
        self.down = layers.Dense(dim)
        self.drop = layers.Dropout(dropout)

    def call(self, x, attention_mask=None, training=False):
        y = self.ln1(x)
        x = x + self.drop(self.mha(y, y, attention_mask=attention_mask, training=training),
                          training=training)
        return x + self.drop(self.down(self.up(self.ln2(x))), training=training)


class Recogniser(keras.Model):
    def __init__(self, dim=384, depth=10, heads=6, dropout=0.1):
        super().__init__()
        self.sub1 = layers.Conv1D(dim, 5, strides=2, padding="same", activation="gelu")
        self.sub2 = layers.Conv1D(dim, 5, strides=2, padding="same", activation="gelu")
        self.position = layers.Embedding(MAX_FRAMES // 4 + 2, dim)
        self.blocks = [Block(dim, heads, dropout) for _ in range(depth)]
        self.norm = layers.LayerNormalization()
        self.head = layers.Dense(VOCAB + 1, dtype="float32")
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.cer = CharErrorRate()

    @staticmethod
    def steps(frames):
        return (frames + 3) // 4

    def call(self, inputs, training=False):
        x = self.sub2(self.sub1(inputs["mel"]))
        t = tf.shape(x)[1]
        x = x + self.position(tf.range(t))
        mask = tf.sequence_mask(self.steps(inputs["frames"]), t)[:, None, :]
        for block in self.blocks:
            x = block(x, attention_mask=mask, training=training)
        return self.head(self.norm(x))

    def ctc(self, truth, logits, steps):
        return tf.reduce_mean(tf.nn.ctc_loss(
            tf.cast(truth, tf.int32), logits, label_length=None, logit_length=steps,
            logits_time_major=False, blank_index=VOCAB))

    @staticmethod
    def to_sparse(y):
        return tf.RaggedTensor.from_tensor(y["chars"], lengths=y["length"]).to_sparse()

    def train_step(self, data):
        x, y = data
        truth, steps = self.to_sparse(y), self.steps(x["frames"])
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.ctc(truth, logits, steps)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        x, y = data
        truth, steps = self.to_sparse(y), self.steps(x["frames"])
        logits = self(x, training=False)
        self.loss_tracker.update_state(self.ctc(truth, logits, steps))
        self.cer.update_state(truth, logits, steps)
        return {"loss": self.loss_tracker.result(), "cer": self.cer.result()}


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--data", type=pathlib.Path, required=True)
    p.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/parliament"))
    args = p.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    lr = keras.optimizers.schedules.CosineDecay(0.0, 300_000, warmup_target=5e-4, warmup_steps=8000)
    model = Recogniser()
    model.compile(optimizer=keras.optimizers.AdamW(lr, weight_decay=0.01, global_clipnorm=1.0),
                  jit_compile=False)
    model.fit(
        dataset(str(args.data / "train-*.tfrecord"), True),
        validation_data=dataset(str(args.data / "dev-*.tfrecord"), False),
        epochs=60,
        callbacks=[
            keras.callbacks.ModelCheckpoint(
                str(args.out / "best.weights.h5"), monitor="val_cer", mode="min",
                save_best_only=True, save_weights_only=True),
            keras.callbacks.CSVLogger(str(args.out / "log.csv")),
        ],
    )


if __name__ == "__main__":
    main()
