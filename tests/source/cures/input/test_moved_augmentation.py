"""Random layers and ops of a map that move into the model or the step, and those that have to stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slowtrain.causes.input.host_augmentation import mapped_augmentation, moved_augmentation
from slowtrain.model import Edit
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.locations.edits.input_edits import CONTRAST_KERAS_VERSION
from slowtrain.script.text.source_file import Source

from ..edit_cases import EditCase, assert_edit, edit_cases  # noqa: TID252  tests are no package

HEAD = """\
import keras
import tensorflow as tf
from keras import layers

data, labels = load(), names()
mirror = layers.RandomFlip("horizontal")
ds = tf.data.Dataset.from_tensor_slices((data, labels)).shuffle(1000)
"""
UNMAPPED = "-ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)\n+ds = ds.batch(8)"
FITTED = """\
 model.compile("adam", "mse")
 model.fit(ds)"""
TRAINED = f"""\
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
{FITTED}"""
MOVED = edit_cases(
    """
== an inline list
-ds = ds.map(lambda x, y: (mirror(x, training=True), y), num_parallel_calls=8)
 ds = ds.batch(32).prefetch(2)
-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), mirror, layers.Flatten(), layers.Dense(1)])
 model.compile("adam", "mse")
 model.fit(ds, epochs=3)
 model.evaluate(data, labels)
== several layers in a function that does more, and a list over lines
 zoom = layers.RandomZoom(0.2)


 def augment(image, label):
     image = tf.cast(image, tf.float32) / 255.0
-    image = mirror(image)
-    return zoom(image, training=True), label * 2.0
+    return image, label * 2.0


 ds = (ds
       .map(augment, num_parallel_calls=tf.data.AUTOTUNE)
       .batch(32)
       .prefetch(2))
 model = keras.Sequential([
     keras.Input((8, 8, 3)),
+    mirror,
+    zoom,
     layers.Flatten(),
     layers.Dense(10),
 ])
 model.compile("adam", "mse")
 model.fit(ds, epochs=3)
== nothing is left of a function, and its map is between others
 def add(x, y):
     return x + 1, y


-def augment(image, label):
-    \"\"\"Flips.\"\"\"
-    image = mirror(image, training=True)
-    return image, label
-
-
 ds = (ds.map(add)
-      .map(augment)
       .batch(32).map(lambda x, y: (x, y * 2)))
-model = keras.Sequential([layers.Flatten(), layers.Dense(1)])
+model = keras.Sequential([mirror, layers.Flatten(), layers.Dense(1)])
 FITTED
== a Sequential of layers
 aug = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomZoom(0.1)])
-ds = ds.batch(32).map(lambda x, y: (aug(x, training=True), y)).prefetch(2)
+ds = ds.batch(32).prefetch(2)
 base = keras.applications.MobileNetV2(include_top=False)
-model = keras.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dense(1)])
+model = keras.Sequential([aug, base, layers.GlobalAveragePooling2D(), layers.Dense(1)])
 model.compile("adam", "mse")
 model.fit(ds, validation_data=(data, labels))
== the shape in the first layer
 UNMAPPED
 model = keras.Sequential([
+    keras.Input((8, 8, 3)),
+    mirror,
-    layers.Conv2D(8, 3, activation="relu", input_shape=(8, 8, 3)),
+    layers.Conv2D(8, 3, activation="relu"),
     layers.Flatten(),
 ])
 FITTED
== layers that are added
 UNMAPPED
 net = keras.Sequential()
 net.add(keras.Input((8, 8, 3)))
+net.add(mirror)
 net.add(layers.Flatten())
 net.add(layers.Dense(1))
 net.compile("adam", "mse")
 net.fit(ds)
== layers that are added with a shape
 UNMAPPED
 net = keras.Sequential(name="net")
-net.add(layers.Flatten(input_shape=(8, 8, 3)))
+net.add(keras.Input((8, 8, 3)))
+net.add(mirror)
+net.add(layers.Flatten())
 net.add(layers.Dense(1))
 net.compile("adam", "mse")
 net.fit(ds)
== a functional model in a function
 UNMAPPED


 def build():
     inputs = keras.Input(shape=(8, 8, 3))
-    x = layers.Conv2D(8, 3)(inputs)
+    x = layers.Conv2D(8, 3)(mirror(inputs))
     x = layers.Flatten()(x)
     return keras.Model(inputs, layers.Dense(1)(x))


 model = build()
 FITTED
== an input that is read twice
 UNMAPPED
 inputs = keras.Input(shape=(8, 8, 3))
+augmented_inputs = mirror(inputs)
-x = layers.Conv2D(3, 3, padding="same")(inputs)
+x = layers.Conv2D(3, 3, padding="same")(augmented_inputs)
-x = layers.Add()([x, inputs])
+x = layers.Add()([x, augmented_inputs])
 model = keras.Model(inputs=[inputs], outputs=layers.Dense(1)(x))
 FITTED
== flips of TensorFlow
+ds = ds.batch(8)
+model = keras.Sequential([keras.layers.RandomFlip("vertical"), layers.Dense(1)])
-def augment(image, label):
-    image = tf.image.random_flip_up_down(image, seed=3)
-    return image, label
-
-
-ds = ds.map(augment).batch(8)
-model = keras.Sequential([layers.Dense(1)])
 FITTED
== layers that are made in the function of the data set
 def make():
-    shift = layers.RandomTranslation(0.1, 0.1)
     pairs = tf.data.Dataset.from_tensor_slices((data, labels))
-    pairs = pairs.map(lambda x, y: (shift(x, training=True), y))
     return pairs.shuffle(100).batch(8)


-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), layers.RandomTranslation(0.1, 0.1), layers.Conv2D(1, 1)])
 model.compile("adam", "mse")
 model.fit(make(), epochs=2)
== layers that are made behind the model
-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), layers.RandomTranslation(0.1, 0.1), layers.Conv2D(1, 1)])
+ds = ds.batch(8)
-shift = layers.RandomTranslation(0.1, 0.1)
-ds = ds.map(lambda x, y: (shift(x, training=True), y)).batch(8)
 FITTED
== a layer for each call
-ds = ds.map(lambda x, y: (layers.RandomFlip()(x), y)).batch(8)
+ds = ds.batch(8)
-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), layers.RandomFlip(), layers.Flatten(), layers.Dense(1)])
 FITTED
== a step that a loop calls
-ds = ds.map(lambda x, y: (mirror(x, training=True), y)).batch(8)
+ds = ds.batch(8)


 @tf.function
 def step(images, targets):
     \"\"\"One step.\"\"\"
+    images = mirror(images, training=True)
     with tf.GradientTape() as tape:
         loss = tf.reduce_mean((model(images, training=True) - targets) ** 2)
     grads = tape.gradient(loss, model.trainable_variables)
     opt.apply_gradients(zip(grads, model.trainable_variables))
     return loss


 for epoch in range(3):
     for n, (x, y) in enumerate(ds):
         loss = step(x, y)
 for x, y in tf.data.Dataset.from_tensor_slices((data, labels)).batch(8):
     model(x)
== a step that unpacks its batch
-def augment(x, y):
-    x = mirror(x)
-    x = turned(x)
-    return x, y
-
-
 turned = layers.RandomRotation(0.1)
-ds = ds.map(augment).batch(8)
+ds = ds.batch(8)


 @tf.function
 def step(batch):
     x, y = batch
+    x = mirror(x, training=True)
+    x = turned(x, training=True)
     with tf.GradientTape() as tape:
         loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
     opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


 for epoch in range(3):
     for batch in ds:
         step(batch)
== a loop that takes its own step, of images alone
 ds = tf.data.Dataset.from_tensor_slices(data).batch(8)
-ds = ds.map(lambda x: tf.image.random_hue(x, 0.1)).prefetch(1)
+ds = ds.prefetch(1)
 for epoch in range(3):
     for x in ds:
+        x = tf.image.random_hue(x, 0.1)
         with tf.GradientTape() as tape:
             loss = tf.reduce_mean(model(x, training=True) ** 2)
         opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
         print(tf.reduce_mean(x))
== the step of a class
 UNMAPPED


 class Net(keras.Model):
     def __init__(self):
         super().__init__()
         self.body = keras.Sequential([layers.Flatten(), layers.Dense(1)])

     def train_step(self, data):
         x, y = data
+        x = mirror(x, training=True)
         with tf.GradientTape() as tape:
             loss = tf.reduce_mean((self.body(x, training=True) - y) ** 2)
         self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
         return {"loss": loss}


 net = Net()
 net.compile("adam")
 net.fit(ds, epochs=2)
== the tutorial
 augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomRotation(0.2)])
 resize_and_rescale = keras.Sequential([layers.Resizing(8, 8), layers.Rescaling(1.0 / 255)])


 def prepare(ds, shuffle=False, augmented=False):
     ds = ds.map(lambda x, y: (resize_and_rescale(x), y), num_parallel_calls=tf.data.AUTOTUNE)
     if shuffle:
         ds = ds.shuffle(1000)
     ds = ds.batch(32)
     # Only for training.
-    if augmented:
-        ds = ds.map(lambda x, y: (augment(x, training=True), y), num_parallel_calls=tf.data.AUTOTUNE)
     return ds.prefetch(tf.data.AUTOTUNE)


 train = prepare(ds, shuffle=True, augmented=True)
 val = prepare(tf.data.Dataset.from_tensor_slices((data, labels)))
 for images, _ in val.take(1):
     show(augment(images))
-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), augment, layers.Flatten(), layers.Dense(1)])
 model.compile("adam", "mse")
 history = model.fit(train, validation_data=val, epochs=5)
== a step that validation calls too
-ds = ds.map(lambda x, y: (mirror(x, training=True), y)).batch(8)
+ds = ds.batch(8)


 @tf.function
 def step(images, targets, train):
     with tf.GradientTape() as tape:
         loss = tf.reduce_mean((model(images, training=True) - targets) ** 2)
     if train:
         opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
     return loss


 for epoch in range(3):
     for x, y in ds:
+        x = mirror(x, training=True)
         step(x, y, True)
     for x, y in tf.data.Dataset.from_tensor_slices((data, labels)).batch(8):
         step(x, y, False)
== a denoiser
-ds = ds.map(lambda x, y: (mirror(x), x)).batch(8)
+ds = ds.map(lambda x, y: (x, x)).batch(8)
-model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(3, 1)])
+model = keras.Sequential([keras.Input((8, 8, 3)), mirror, layers.Conv2D(3, 1)])
 FITTED
""".replace(" FITTED", FITTED).replace(" UNMAPPED", UNMAPPED),
    HEAD,
)
KEPT = edit_cases(
    """
== a crop
 crop = layers.RandomCrop(6, 6)
 ds = ds.map(lambda x, y: (crop(x, training=True), y)).batch(8)
 model = keras.Sequential([keras.Input((6, 6, 3)), layers.Flatten(), layers.Dense(1)])
 FITTED
== a mask that turns with its image
 def augment(image, mask):
     both = mirror(tf.concat([image, mask], -1), training=True)
     return both[..., :3], both[..., 3:]


 ds = ds.map(augment).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Flatten(), layers.Dense(1)])
 FITTED
== a mask that the same layer changes
 ds = ds.map(lambda x, y: (mirror(x), mirror(y))).batch(8)
 TRAINED
== labels from the augmented image
 def augment(image, label):
     image = mirror(image)
     return image, image


 ds = ds.map(augment).batch(8)
 TRAINED
== one draw for a batch in place of one for each image
 def augment(image, label):
     image = tf.image.random_flip_left_right(image)
     return tf.image.random_brightness(image, 0.2), label


 ds = ds.map(augment).batch(8)
 TRAINED
== some of the random work
 def augment(image, label):
     image = tf.image.random_contrast(image, 0.8, 1.2)
     return mirror(image), label


 ds = ds.map(augment).batch(8)
 TRAINED
== work behind the random work
 ds = ds.map(lambda x, y: (mirror(x) / 255.0, y)).batch(8)
 TRAINED
== a cache of what was drawn
 ds = ds.map(lambda x, y: (mirror(x), y)).cache().batch(8)
 TRAINED
== validation with the same map
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
 model.compile("adam", "mse")
 model.fit(ds.skip(10), validation_data=ds.take(10))
== augmented images that are evaluated
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 TRAINED
 model.evaluate(ds)
== training on other images as well
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 TRAINED
 model.fit(data, labels)
== a layer that the model has already
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), mirror, layers.Conv2D(1, 1)])
 FITTED
== a functional model that has the layer already
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 inputs = keras.Input((8, 8, 3))
 model = keras.Model(inputs, layers.Conv2D(1, 1)(mirror(inputs)))
 FITTED
== a compiler that lacks the layers
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
 model.compile("adam", "mse", jit_compile=True)
 model.fit(ds)
== a model that is called without saying how
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 TRAINED
 print(model(data[:1]))
== a model whose layers are counted
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 TRAINED
 print(model.layers[0].name)
== weights of a model without the layers
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
 model.load_weights("old.weights.h5")
 FITTED
== a model in another model
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 TRAINED
 both = keras.Sequential([model, layers.Dense(1)])
== an input of bytes
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3), dtype="uint8"), layers.Conv2D(1, 1)])
 FITTED
== a strategy
 strategy = tf.distribute.MirroredStrategy()
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 with strategy.scope():
     model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
     FITTED
== layers that do nothing
 ds = ds.map(lambda x, y: (mirror(x, training=False), y)).batch(8)
 TRAINED
== a list of layers that scales too
 aug = keras.Sequential([layers.Rescaling(1 / 255), layers.RandomFlip()])
 ds = ds.map(lambda x, y: (aug(x, training=True), y)).batch(8)
 TRAINED
== images of different sizes
 ds = ds.map(lambda x, y: (mirror(x), y)).padded_batch(8)
 TRAINED
== several inputs
 ds = ds.map(lambda x, y: ({"image": mirror(x), "size": y}, y)).batch(8)
 TRAINED
== a function of two maps
 def augment(x, y):
     return mirror(x), y


 ds = ds.map(augment).batch(8)
 other = tf.data.Dataset.from_tensor_slices((data, labels)).map(augment).batch(8)
 model = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(1, 1)])
 model.compile("adam", "mse")
 model.fit(ds, validation_data=other)
== a choice
 def augment(x, y):
     if tf.random.uniform(()) > 0.5:
         x = mirror(x)
     return x, y


 ds = ds.map(augment).batch(8)
 TRAINED
== a contrast of Keras 2
 import tf_keras
 contrast = layers.RandomContrast(0.1)
 ds = ds.map(lambda x, y: (contrast(x), y)).batch(8)
 TRAINED
== a draw of its own for the label
 ds = ds.map(lambda x, y: (mirror(x), y + tf.random.normal(()))).batch(8)
 TRAINED
== a loop that also looks at the images of a step, compiled
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)


 @tf.function(jit_compile=True)
 def step(x, y):
     with tf.GradientTape() as tape:
         loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
     opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))


 for epoch in range(3):
     for x, y in ds:
         step(x, y)
== a loop that only looks
 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 for x, y in ds:
     show(x)
== a model of a class
 class Net(keras.Model):
     def call(self, x, training=None):
         return self.body(x)


 ds = ds.map(lambda x, y: (mirror(x), y)).batch(8)
 net = Net()
 net.compile("adam", "mse")
 net.fit(ds)
""".replace(" TRAINED", TRAINED).replace(" FITTED", FITTED),
    HEAD,
)


@pytest.mark.parametrize("case", MOVED.values(), ids=MOVED)
def test_random_work_moves_to_whole_batches(case: EditCase) -> None:
    assert case[1] is not None
    assert_edit(case, _moved)


@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_what_would_change_stays(case: EditCase) -> None:
    assert_edit(case, _moved)


def _moved(source: Source, _: int) -> list[Edit]:
    """The edits at the first map that has some."""
    rows = source.text.splitlines()
    tried = (moved_augmentation.move_augmentation(source, n) for n, row in enumerate(rows, 1) if ".map(" in row)
    made = next(filter(None, tried), [])
    assert not made or recorded_edits.are_valid_edits(source, made)
    return made


RUN = """
import json, sys
import keras
import numpy as np
import tensorflow as tf

asked = json.load(sys.stdin)
image = np.arange(8 * 8 * 3, dtype="float32").reshape(8, 8, 3)
given = {"load": lambda: np.stack([image] * 16), "names": lambda: np.zeros((16, 1), "float32"), "show": lambda *_: None}
for name, text in asked["scripts"].items():
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    space = {**given, "model": model, "opt": keras.optimizers.SGD(1e-6)}
    exec(compile(text, name, "exec"), space)
    net = space.get("net", space["model"])
    assert (getattr(net, "optimizer", None) or space["opt"]).iterations > 0, name
    first = net.body if hasattr(net, "body") else net
    np.testing.assert_array_equal(first(given["load"](), training=False), first(given["load"](), training=False))
made = {"RandomContrast": 0.5, "RandomBrightness": 0.5, "RandomHue": 0.5, "RandomSaturation": (0.1, 0.9),
        "RandomSharpness": 0.9, "RandomRotation": 0.5, "RandomZoom": 0.5}
special = {"RandomFlip": {}, "RandomTranslation": {"height_factor": 0.5, "width_factor": 0.5},
           "RandomShear": {"x_factor": 0.5}, "RandomColorJitter": {"brightness_factor": 0.5}}
images = np.random.default_rng(0).uniform(0, 255, (8, 8, 3)).astype("float32")[None].repeat(16, 0)
drawn = {"keras": [int(n) for n in keras.__version__.split(".")[:2]]}
for name in asked["layers"]:
    kind = getattr(keras.layers, name, None)
    if kind is not None:
        layer = kind(**special[name]) if name in special else kind(made[name])
        drawn[name] = len(np.unique(np.asarray(layer(images, training=True)).reshape(16, -1), axis=0))
        assert np.array_equal(np.asarray(layer(images, training=False)), images), name
for name, arguments in asked["ops"].items():
    result = getattr(tf.image, name)(images / 255, *arguments).numpy()
    drawn[name] = len(np.unique(result.reshape(16, -1), axis=0))
print("DRAWN", json.dumps(drawn))
"""
OPS = {"random_brightness": [0.2], "random_contrast": [0.2, 0.9], "random_saturation": [0.2, 0.9], "random_hue": [0.2]}


@pytest.mark.tensorflow
def test_moved_work_runs_in_training_only_and_draws_for_each_image(tmp_path: Path) -> None:
    base = "x := keras.Input((None, None, 3)), layers.Conv2D(4, 3)(x)"
    scripts = {
        name: str(after).replace("applications.MobileNetV2(include_top=False", f"Model({base}")
        for name, (_, after) in MOVED.items()
    }
    flips: dict[str, list[float]] = {name: [] for name in mapped_augmentation.FLIP_LAYERS}
    asked = {"scripts": scripts, "layers": sorted(mapped_augmentation.PER_IMAGE_LAYERS), "ops": {**OPS, **flips}}
    run = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(asked), capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    drawn = json.loads(run.stdout.partition("DRAWN")[2])
    once = set(OPS) | ({"RandomContrast"} if drawn.pop("keras") < list(CONTRAST_KERAS_VERSION) else set())
    assert {name for name, count in drawn.items() if count == 1} == once
    assert set(OPS) == mapped_augmentation.PER_CALL_OPS
