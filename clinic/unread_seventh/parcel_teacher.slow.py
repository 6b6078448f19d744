"""Semi-supervised land-use classification of 96 px aerial parcels (mean teacher).

Labelled parcels sit in folders by class; the unlabelled flight strips are TFRecord shards.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import csv
import time

import tensorflow as tf
from tensorflow import keras

CLASSES = sorted(["arable", "meadow", "orchard", "forest", "industrial", "residential",
                  "road", "water", "vineyard", "greenhouse"])
SIDE = 96
AUTO = tf.data.AUTOTUNE


def labelled(root, batch, training):
    files = tf.io.gfile.glob(os.path.join(root, "*", "*.png"))
    ids = [CLASSES.index(f.split("/")[-2]) for f in files]

    def read(path, y):
        img = tf.io.decode_png(tf.io.read_file(path), channels=3)
        return tf.ensure_shape(img, [SIDE, SIDE, 3]), y

    ds = tf.data.Dataset.from_tensor_slices((files, ids))
    ds = ds.map(read, num_parallel_calls=AUTO).cache()
    if training:
        ds = ds.shuffle(4096).repeat()
    return ds.batch(batch, drop_remainder=training).prefetch(AUTO)


def strips(pattern, batch):
    def parse(rec):
        ex = tf.io.parse_single_example(rec, {"jpeg": tf.io.FixedLenFeature([], tf.string)})
        return tf.ensure_shape(tf.io.decode_jpeg(ex["jpeg"], channels=3), [SIDE, SIDE, 3])

    ds = tf.data.Dataset.list_files(pattern, shuffle=True)
    ds = ds.interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=AUTO,
                       deterministic=False)
    ds = ds.shuffle(8192).repeat().map(parse, num_parallel_calls=AUTO)
    return ds.batch(batch, drop_remainder=True).prefetch(AUTO)


def make_net():
    base = keras.applications.EfficientNetV2B0(include_top=False, pooling="avg",
                                               input_shape=(SIDE, SIDE, 3))
    x = keras.layers.Dropout(0.3)(base.output)
    out = keras.layers.Dense(len(CLASSES), dtype="float32")(x)
    return keras.Model(base.input, out)


def weak(x):
    x = tf.image.random_flip_left_right(tf.cast(x, tf.float32))
    return tf.image.random_flip_up_down(x)


def strong(x):
    x = tf.image.random_contrast(weak(x), 0.7, 1.3)
    x = tf.image.random_brightness(x, 30.0)
    return tf.clip_by_value(x + tf.random.normal(tf.shape(x), stddev=6.0), 0.0, 255.0)


def follow(teacher, student, alpha):
    for t, s in zip(teacher.weights, student.weights):
        t.assign(alpha * t + (1.0 - alpha) * s)


def main(args):
    keras.utils.set_random_seed(args.seed)
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    student, teacher = make_net(), make_net()
    teacher.set_weights(student.get_weights())

    schedule = keras.optimizers.schedules.CosineDecay(args.lr, args.steps)
    opt = keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True)
    xent = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    sup_m, con_m = keras.metrics.Mean(), keras.metrics.Mean()
    acc = keras.metrics.SparseCategoricalAccuracy()

    @tf.function
    def train_step(xl, yl, xu):
        target = tf.nn.softmax(teacher(weak(xu), training=False))
        progress = tf.cast(opt.iterations, tf.float32) / (0.3 * args.steps)
        ramp = args.consistency * tf.exp(-5.0 * tf.square(1.0 - tf.minimum(progress, 1.0)))
        with tf.GradientTape() as tape:
            logits = student(tf.concat([weak(xl), strong(xu)], 0), training=True)
            sup = xent(yl, logits[:args.batch])
            con = tf.reduce_mean(tf.square(tf.nn.softmax(logits[args.batch:]) - target))
            loss = sup + ramp * con
        grads = tape.gradient(loss, student.trainable_variables)
        opt.apply_gradients(zip(grads, student.trainable_variables))
        sup_m.update_state(sup)
        con_m.update_state(con)

    @tf.function(reduce_retracing=True)
    def test_step(x, y):
        acc.update_state(y, teacher(tf.cast(x, tf.float32), training=False))

    train = tf.data.Dataset.zip((labelled(args.train, args.batch, True),
                                 strips(args.strips, 3 * args.batch)))
    val = labelled(args.val, 256, False)
    ckpt = tf.train.Checkpoint(student=student, teacher=teacher, opt=opt)
    manager = tf.train.CheckpointManager(ckpt, args.out, max_to_keep=2)

    writer = csv.writer(open(os.path.join(args.out, "log.csv"), "w", newline=""))
    writer.writerow(["step", "sup", "con", "val_acc", "seconds"])
    started = time.time()
    for step, ((xl, yl), xu) in enumerate(train.take(args.steps), start=1):
        train_step(xl, yl, xu)
        follow(teacher, student, min(0.999, 1.0 - 1.0 / (step + 1)))

        if step % args.eval_every == 0:
            acc.reset_state()
            for x, y in val:
                test_step(x, y)
            row = [step, float(sup_m.result()), float(con_m.result()), float(acc.result()),
                   round(time.time() - started, 1)]
            writer.writerow(row)
            print("step %d  sup %.4f  con %.5f  val %.4f  %.0fs" % tuple(row))
            sup_m.reset_state()
            con_m.reset_state()
            manager.save()
    teacher.save(os.path.join(args.out, "teacher.keras"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--train", default="parcels/train")
    ap.add_argument("--val", default="parcels/val")
    ap.add_argument("--strips", default="parcels/strips-*.tfrecord")
    ap.add_argument("--out", default="runs/parcels")
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--steps", type=int, default=60000)
    ap.add_argument("--eval-every", type=int, default=2000)
    ap.add_argument("--lr", type=float, default=0.03)
    ap.add_argument("--consistency", type=float, default=20.0)
    ap.add_argument("--seed", type=int, default=0)
    a = ap.parse_args()
    os.makedirs(a.out, exist_ok=True)
    main(a)
