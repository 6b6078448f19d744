"""Evaluates a step's jaxpr equation by equation, and finds the one that first made a non-finite number.

As in :mod:`slowtrain.capture.nonfinite.first_bad_op`, the origin is an equation whose inputs were finite and whose
result was not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from slowtrain.capture.inspection import user_code
from slowtrain.capture.nonfinite.first_bad_op import MAX_INPUT_RANGES, number_range

# Primitives that are calls, and the parameters that contain the called jaxpr.
CALL_PRIMITIVES = frozenset(
    "jit pjit closed_call core_call remat checkpoint remat2 custom_jvp_call custom_vjp_call".split()
)
CALLED_PARAMETERS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
# primitives whose derivatives consist of other primitives
DERIVED_PRIMITIVES = frozenset("sqrt rsqrt cbrt pow integer_pow log select_n".split())


# TensorFlow's names of primitives, which remedies are listed by.
TENSORFLOW_OPS = {
    "log": "Log",
    "log1p": "Log1p",
    "exp": "Exp",
    "exp2": "Exp",
    "expm1": "Exp",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "div": "RealDiv",
    "pow": "Pow",
    "integer_pow": "Square",
    "square": "Square",
    "acos": "Acos",
    "asin": "Asin",
    "atanh": "Atanh",
    "convert_element_type": "Cast",
    "dot_general": "MatMul",
    "conv_general_dilated": "Conv",
    "select_n": "Select",
}


class EquationReplay:
    """``layers`` are the names of the model's layers, which are scopes of equations."""

    def __init__(self, layers: Iterable[str]) -> None:
        self.layers = frozenset(layers)
        self.origins: list[dict[str, Any]] = []
        self.count = 0

    def run(self, closed: Any, inputs: Sequence[tuple[str, Any]], weights: int) -> list[int]:
        """Returns for each result the number of the origin that reached it, or 0.

        The first ``weights`` given are weights.
        """
        import numpy as np

        bad = []
        for i, (name, value) in enumerate(inputs):
            array, kind = float_array(value), "weights" if i < weights else "data"
            fine = array is None or is_array_finite(array)
            bad.append(0 if fine else self._note({"kind": kind, "name": name, "output": number_range(array, np)}))
        return self._call(closed, [v for _, v in inputs], bad, None, "")[1]

    def _call(
        self, closed: Any, values: Sequence[Any], bad: Sequence[int], site: Any, scope: str
    ) -> tuple[list[Any], list[int]]:
        """Returns the values of the results, and their origins."""
        jaxpr = getattr(closed, "jaxpr", closed)
        known: dict[Any, tuple[Any, int, str]] = {}
        for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            known[var] = value, 0, ""
        for var, value, origin in zip(jaxpr.invars, values, bad, strict=True):
            known[var] = value, origin, ""

        def read_atom(atom: Any) -> tuple[Any, int, str]:
            return (atom.val, 0, "") if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            inputs = [read_atom(atom) for atom in equation.invars]
            here = _equation_line(equation) or site
            inner = "/".join(filter(None, (scope, str(equation.source_info.name_stack))))
            results = self._equation(equation, inputs, here, inner)
            for var, (value, origin) in zip(equation.outvars, results, strict=True):
                known[var] = value, origin, equation.primitive.name
        last = [read_atom(atom) for atom in jaxpr.outvars]
        return [v for v, _, _ in last], [o for _, o, _ in last]

    def _equation(
        self, equation: Any, inputs: Sequence[tuple[Any, int, str]], site: Any, scope: str
    ) -> list[tuple[Any, int]]:
        self.count += 1
        name, values = equation.primitive.name, [v for v, _, _ in inputs]
        called = (
            next((equation.params[k] for k in CALLED_PARAMETERS if k in equation.params), None)
            if name in CALL_PRIMITIVES
            else None
        )
        if called is not None and len(getattr(called, "jaxpr", called).invars) == len(values):
            return list(zip(*self._call(called, values, [o for _, o, _ in inputs], site, scope), strict=True))
        bound = equation.primitive.bind(*values, **equation.params)
        results = list(bound) if equation.primitive.multiple_results else [bound]
        return [(result, self._origin_of_result(name, inputs, result, site, scope)) for result in results]

    def _origin_of_result(
        self, name: str, inputs: Sequence[tuple[Any, int, str]], result: Any, site: Any, scope: str
    ) -> int:
        """Returns the origin of a result: 0 if it is finite, or an intended infinity."""
        array = float_array(result)
        if array is None or is_array_finite(array):
            return 0
        arrays = [a for v, _, _ in inputs if (a := float_array(v)) is not None]
        known = [o for _, o, _ in inputs if o]
        if known:
            return min(known)
        import numpy as np

        if any(not is_array_finite(a) for a in arrays) and not np.isnan(array).any():
            return 0  # an infinity of the script's own that is passed on
        root = next((primitive for _, _, primitive in inputs if primitive in DERIVED_PRIMITIVES), name)
        layers = [p for p in re.split(r"[/()]+", scope) if p in self.layers]
        return self._note(
            {
                "kind": "op",
                "type": name,
                "of": root,
                "layer": "/".join(dict.fromkeys(layers)),
                "site": site,
                "gradient": "transpose(" in scope,
                "inputs": [number_range(a, np) for a in arrays if a.size][:MAX_INPUT_RANGES],
                "output": number_range(array, np),
            }
        )

    def _note(self, origin: dict[str, Any]) -> int:
        self.origins.append(origin)
        return len(self.origins)


def float_array(value: Any) -> Any:
    """Returns a floating-point value as a NumPy array; None for others (integers, keys of generators)."""
    import numpy as np

    jax = sys.modules["jax"]
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return np.asarray(value) if isinstance(value, float) else None
    if not jax.numpy.issubdtype(dtype, jax.numpy.floating):
        return None
    array = np.asarray(value)
    return array if array.dtype.kind == "f" else array.astype(np.float32)  # bfloat16 and narrower


def is_array_finite(array: Any) -> bool:
    import numpy as np

    return bool(np.isfinite(array).all())


def _equation_line(equation: Any) -> tuple[str, int] | None:
    """Returns the user's line that an equation comes from."""
    traceback = equation.source_info.traceback
    for frame in traceback.frames if traceback is not None else ():
        if not frame.file_name.startswith("<") and user_code.is_user_file(frame.file_name):
            return frame.file_name, int(frame.line_num)
    return None
