"""Names of Keras and TensorFlow which several rules look for."""

from __future__ import annotations

import ast

DTYPE_SETTERS = ("set_floatx", "set_global_policy", "set_dtype_policy", "set_policy")
FUSED_LAYERS = ("keras.layers.LSTM", "keras.layers.GRU")
BATCH_HOOKS = frozenset({"on_train_batch_end", "on_batch_end", "on_train_batch_begin", "on_batch_begin"})
RECURRENT_LAYERS = ("LSTM", "GRU", "SimpleRNN")
CONVOLUTION_LAYERS = ("Conv2D", "Conv3D", "conv2d", "conv3d", "Conv2DTranspose", "DepthwiseConv2D", "SeparableConv2D")
LARGE_LAYERS = ("MultiHeadAttention", "Conv1D", "conv1d", "Bidirectional", "Embedding", "add_weight")
GENERATOR_CLASS = "keras.preprocessing.image.ImageDataGenerator"
RANDOM_LAYERS = (
    "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation", "RandomContrast", "RandomBrightness",
    "RandomCrop", "RandomHeight", "RandomWidth", "RandomShear", "RandomPerspective", "RandomColorJitter", "RandomHue",
    "RandomSaturation", "RandomSharpness", "RandomGaussianBlur", "RandAugment", "AugMix",
)  # fmt: skip
COMPUTING_LAYERS = frozenset("Dense LSTM GRU Conv1D Conv2D Conv3D MultiHeadAttention EinsumDense".split())
VARIABLE_ATTRIBUTES = frozenset(
    {"trainable_variables", "trainable_weights", "weights", "variables", "non_trainable_variables"}
)


def dtype_set_by(call: ast.Call) -> str | None:
    """The dtype in the text of a call of one of ``DTYPE_SETTERS``."""
    argument = call.args[0] if call.args else None
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None
