"""Shapes and number formats of an op's operands, from its text in a profile."""

from __future__ import annotations

from slowtrain.trace import names
from slowtrain.values import dataclass

# Elements that fill the 16 bytes which a tensor core's operands are read in at once (NVIDIA's guide to the performance
# of matrix products); dimensions that are no multiple of it are read in smaller pieces, or padded.
MULTIPLE = {"float16": 8, "bfloat16": 8, "tf32": 4}


DTYPES = {"half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64", "uint8": "uint8",
           "int32": "int32", "int64": "int64", "bool": "bool"}  # as TensorFlow's annotations write them  # fmt: skip


_FORMATS = frozenset({"float16", "bfloat16", "tf32", "float32", "float64"})


_MOST_SHAPES, _MOST_DIMS = 16, 8


@dataclass(frozen=True)
class Operand:
    """One input of an op; an unknown dimension is 0."""

    dtype: str
    shape: tuple[int, ...]


def operands(text: str) -> tuple[Operand, ...]:
    """Parse ``scope/MatMul:MatMul#shape=(half[32,100];half[100,10])#`` to its inputs; empty without shapes."""
    found = names.SHAPES.search(text)
    result = []
    for part in found[1].split(";")[:_MOST_SHAPES] if found else ():
        dtype, _, rest = part.strip().partition("[")
        dims = rest.rstrip("]").split(",", _MOST_DIMS)[:_MOST_DIMS] if rest.strip("]") else []
        shape = tuple(int(d) if d.isascii() and d.isdigit() and len(d) < 10 else 0 for d in dims)
        result.append(Operand(DTYPES.get(dtype, dtype), shape))
    return tuple(result)


def product_format(text: str) -> str | None:
    """Return the number format of a matrix product or convolution from its operands; None for other ops."""
    parsed = names.graph_op(text.partition("#")[0])
    if parsed is None or not (names.MATMUL_OP.match(parsed[1]) or names.CONV_OP.match(parsed[1])):
        return None
    formats = [o.dtype for o in operands(text) if o.dtype in _FORMATS]
    return formats[0] if formats else None
