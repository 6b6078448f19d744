"""Shapes and number formats of an op's operands, from its text in a profile."""

from __future__ import annotations

from dataclasses import dataclass

from slowtrain.profile import framework_names

# Elements that fill the 16 bytes which a tensor core's operands are read in at once (NVIDIA's guide to the performance
# of matrix products); dimensions that are no multiple of it are read in smaller pieces, or padded.
ALIGNED_ELEMENTS = {"float16": 8, "bfloat16": 8, "tf32": 4}


FORMAT_BY_DTYPE = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64", "uint8": "uint8",
           "int32": "int32", "int64": "int64", "bool": "bool"}  # as TensorFlow's annotations write them  # fmt: skip


_PRODUCT_FORMATS = frozenset({"float16", "bfloat16", "tf32", "float32", "float64"})


_MAX_SHAPES, _MAX_DIMS = 16, 8


@dataclass(frozen=True)
class Operand:
    """One input of an op; an unknown dimension is 0."""

    dtype: str
    shape: tuple[int, ...]


def parse_operands(text: str) -> tuple[Operand, ...]:
    """Parse ``scope/MatMul:MatMul#shape=(half[32,100];half[100,10])#`` to its inputs; empty without shapes."""
    found = framework_names.ANNOTATED_SHAPES.search(text)
    result = []
    for part in found[1].split(";")[:_MAX_SHAPES] if found else ():
        dtype, _, rest = part.strip().partition("[")
        dims = rest.rstrip("]").split(",", _MAX_DIMS)[:_MAX_DIMS] if rest.strip("]") else []
        shape = tuple(int(d) if d.isascii() and d.isdigit() and len(d) < 10 else 0 for d in dims)
        result.append(Operand(FORMAT_BY_DTYPE.get(dtype, dtype), shape))
    return tuple(result)


def product_format(text: str) -> str | None:
    """Return the number format of a matrix product or convolution from its operands; None for other ops."""
    parsed = framework_names.graph_op(text.partition("#")[0])
    if parsed is None or not (framework_names.MATMUL_OP.match(parsed[1]) or framework_names.CONV_OP.match(parsed[1])):
        return None
    formats = [o.dtype for o in parse_operands(text) if o.dtype in _PRODUCT_FORMATS]
    return formats[0] if formats else None
