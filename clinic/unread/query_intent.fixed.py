"""Intent model on pooled query embeddings."""
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf


@dataclass(frozen=True)
class Recipe:
    examples: int = 100_000
    width: int = 384
    intents: int = 64
    global_batch: int = 512
    micro_batch: int = 512
    rate: float = 1e-3
    epochs: int = 3

    @property
    def accumulate(self):
        rounds = self.global_batch // self.micro_batch
        return rounds if rounds > 1 else None


def load(recipe):
    rng = np.random.default_rng(50)
    intents = rng.integers(0, recipe.intents, recipe.examples)
    centers = rng.standard_normal((recipe.intents, recipe.width), dtype=np.float32)
    noise = rng.standard_normal((recipe.examples, recipe.width), dtype=np.float32)
    return centers[intents] + noise, intents


def feed(recipe):
    return (
        tf.data.Dataset.from_tensor_slices(load(recipe))
        .cache()
        .shuffle(16_384)
        .batch(recipe.micro_batch, drop_remainder=True)
        .prefetch(tf.data.AUTOTUNE)
    )


def classifier(recipe):
    inputs = keras.Input((recipe.width,))
    x = keras.layers.LayerNormalization()(inputs)
    for _ in range(2):
        x = keras.layers.Dense(256, activation="gelu")(x)
        x = keras.layers.Dropout(0.1)(x)
    return keras.Model(inputs, keras.layers.Dense(recipe.intents)(x))


def main():
    recipe = Recipe()
    model = classifier(recipe)
    model.compile(
        optimizer=keras.optimizers.AdamW(
            recipe.rate, gradient_accumulation_steps=recipe.accumulate
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(feed(recipe), epochs=recipe.epochs, verbose=2)
    model.save("intent.keras")


if __name__ == "__main__":
    main()
