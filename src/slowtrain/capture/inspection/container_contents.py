"""Describes what a growing container holds: the type of its newest element, and how many bytes that element keeps.

Reads as :mod:`slowtrain.capture.growth.named_containers` does, without calling anything of the user's. In objects of
Keras and TensorFlow it follows the attributes that lead to weights. If the previous element has the same weights, they
are counted once.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from types import GetSetDescriptorType
from typing import Any

MAX_SMALL_LENGTH = 24  # containers up to this length are read completely
MAX_OBJECT_DEPTH = 3  # levels of objects in objects
MAX_LIBRARY_OBJECTS = 4000  # of the library's objects that one element leads to: models of a thousand layers
POINTER_BYTES = 8  # for an element that was kept before
LIBRARY_PREFIXES = ("keras.", "tf_keras.", "tensorflow.")
# From the result of ``fit`` to the model, and from there to layers, variables and those of the optimizer; Keras 3,
# then 2.
WEIGHT_ATTRIBUTES = (
    *("model", "_model", "_layers", "optimizer", "_optimizer", "_trainable_variables", "_non_trainable_variables"),
    *("_variables", "_value", "_self_tracked_trackables", "_trainable_weights", "_non_trainable_weights"),
)
VARIABLE_TYPES = ("ResourceVariable", "UnliftedInitializerVariable")  # the latter are created inside a function
LAYER_ATTRIBUTES = ("_layers", "_self_tracked_trackables")

type_fields = type.__dict__["__dict__"].__get__
type_name = type.__dict__["__name__"].__get__
_type_module = type.__dict__["__module__"].__get__
_type_mro = type.__dict__["__mro__"].__get__
# By id, because hashing or comparing a class may call its metaclass.
PLAIN_TYPES = frozenset(map(id, (int, float, bool, str, bytes, complex)))


def array_sizes_by_type() -> dict[int, Callable[[Any], int]]:
    """Returns by the id of a class, for the loaded array classes of NumPy, TensorFlow and pandas, a function for their
    bytes.
    """
    found: dict[int, Callable[[Any], int]] = {}
    for module, name, size in _ARRAYS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            found[id(kind)] = size
    return found


def describe_array(value: Any) -> dict[str, Any]:
    """Describes an array as a container of bytes: it grows when a longer one takes its name."""
    return {"kind": type_name(type(value)), "element": "", "element_bytes": 1, "array": True, "limit": None}


def _array_bytes(value: Any) -> int:
    return int(value.nbytes)


def _tensor_bytes(value: Any) -> int:
    return math.prod((int(value.dtype.size), *value._shape_tuple()))


def _frame_bytes(value: Any) -> int:
    """Returns the bytes of a pandas table, in which columns of strings count as pointers; -1 if not known."""
    try:
        return sum(int(block.values.nbytes) for block in value._mgr.blocks)
    except (AttributeError, TypeError):  # of another version
        return -1


_ARRAYS = (
    ("numpy", "ndarray", _array_bytes),
    ("tensorflow.python.framework.ops", "EagerTensor", _tensor_bytes),
    ("pandas", "DataFrame", _frame_bytes),
    ("pandas", "Series", _frame_bytes),
)


def describe_contents(value: Any) -> dict[str, Any]:
    """Describes the newest elements: type and bytes of one (0: not known; ``at_least``: or more)."""
    value = unwrap_list(value)
    newest, before = _newest_elements(value)
    scale = _SizeSum()
    scale.weigh(before, MAX_OBJECT_DEPTH)
    scale.known = scale.more = False
    size = scale.weigh(newest, MAX_OBJECT_DEPTH)
    return {
        "kind": type_name(type(value)),
        "element": _element_type(newest),
        "element_module": module_name(type(newest)),
        "element_bytes": size or (POINTER_BYTES if scale.known else 0),
        "at_least": scale.more,
        "limit": deque.maxlen.__get__(value) if issubclass(type(value), deque) else None,
    }


def unwrap_list(value: Any) -> Any:
    """Returns the list inside TensorFlow's wrapper, which it uses for lists that are attributes of a ``tf.Module``."""
    kind = type(value)
    if type_name(kind) == "ListWrapper" and module_name(kind).startswith("tensorflow."):
        return (instance_fields(value, kind) or {}).get("_storage", value)
    return value


def module_name(kind: type) -> str:
    found = _type_module(kind)
    return found if type(found) is str else ""


def instance_fields(value: Any, kind: type) -> dict[str, Any] | None:
    """Returns an object's own dictionary, if its class accesses it in the usual way; else None."""
    for base in _type_mro(kind):
        found = type_fields(base).get("__dict__")
        if found is not None:
            return found.__get__(value) if type(found) is GetSetDescriptorType else None
    return None


def _element_type(value: Any) -> str:
    """Returns an element's type; for a small tuple or list also the types in it."""
    name, kind = type_name(type(value)), type(value)
    if (kind is list or kind is tuple) and value:
        inner = list(dict.fromkeys(type_name(type(v)) for v in value[:8]))
        return f"{name} of {', '.join(inner[:3])}"
    return str(name)


def _newest_elements(value: Any) -> tuple[Any, Any]:
    """Returns the newest element and the one before it; None if there is none, or no order."""
    kind = type(value)
    try:
        if issubclass(kind, (list, deque)):
            base = list if issubclass(kind, list) else deque
            return base.__getitem__(value, -1), base.__getitem__(value, -2) if base.__len__(value) > 1 else None
        if kind is dict:
            both = reversed(value.values())
            return next(both), next(both, None)
        if issubclass(kind, dict):
            return next(iter(dict.values(value))), None
        return next(iter(set.__iter__(value))), None
    except (IndexError, RuntimeError, StopIteration):
        return None, None


class _SizeSum:
    """Adds up the bytes that objects keep, for known types. What was met before is not counted again.

    ``known``: something was met before. ``more``: a model is among the objects, which also keeps the graphs of its
    functions.
    """

    def __init__(self) -> None:
        self.known = self.more = False
        self._met: dict[int, Any] = {}  # kept alive meanwhile, so that no other object gets its id
        self._left = MAX_LIBRARY_OBJECTS

    def weigh(self, value: Any, depth: int) -> int:
        value = unwrap_list(value)
        kind = type(value)
        if id(kind) in PLAIN_TYPES:
            return sys.getsizeof(value)
        size = self._array(value, kind)
        if size is not None:
            return size
        if depth and issubclass(kind, (list, tuple, dict)):
            return self._several(value, kind, depth)
        own = instance_fields(value, kind) if depth else None
        if type(own) is not dict:
            return 0
        if any(module_name(base).startswith(LIBRARY_PREFIXES) for base in _type_mro(kind)):
            return self._of_library(value, own, depth)
        return sum(self.weigh(v, depth - 1) for v in list(own.values())[:MAX_SMALL_LENGTH])

    def _array(self, value: Any, kind: type) -> int | None:
        """Returns the bytes of arrays, tensors and variables; None for anything else."""
        name, module = type_name(kind), module_name(kind)
        if module == "numpy":
            if name != "ndarray":
                return sys.getsizeof(value)
            base: Any = value.base
            whole: Any = value if base is None or type(base) is not kind else base
            return int(whole.nbytes) if self._is_new(whole) else int(value.nbytes) if whole is not value else 0
        if name == "EagerTensor" and module.startswith("tensorflow."):
            return _tensor_bytes(value) if self._is_new(value) else 0
        if name in VARIABLE_TYPES and module.startswith("tensorflow."):
            return int(value.dtype.size) * int(value.shape.num_elements() or 0) if self._is_new(value) else 0
        if name == "ArrayImpl" and module.startswith("jaxlib."):
            return int(value.nbytes) if self._is_new(value) else 0
        return None

    def _several(self, value: Any, kind: type, depth: int) -> int:
        if issubclass(kind, dict):
            count, few = dict.__len__(value), list(dict.values(value))[:MAX_SMALL_LENGTH]
        else:
            base = list if issubclass(kind, list) else tuple
            count, few = base.__len__(value), list(base.__getitem__(value, slice(MAX_SMALL_LENGTH)))
        each = [self.weigh(v, depth - 1) for v in few]
        return sys.getsizeof(value) + (int(sum(each) * count / len(each)) if each else 0)

    def _of_library(self, value: Any, own: dict[str, Any], depth: int) -> int:
        """Returns the bytes of all weights of a library object, at any depth."""
        if self._left <= 0 or not self._is_new(value):
            return 0
        self._left -= 1
        self.more = self.more or any(name in own for name in LAYER_ATTRIBUTES)
        size = 0
        for name in WEIGHT_ATTRIBUTES:
            lead = unwrap_list(own.get(name))
            kind = type(lead)
            several = issubclass(kind, (list, tuple))
            base = list if issubclass(kind, list) else tuple
            size += sum(self.weigh(one, depth) for one in (list(base.__iter__(lead)) if several else [lead]))
        return size

    def _is_new(self, value: Any) -> bool:
        if id(value) in self._met:
            self.known = True
            return False
        self._met[id(value)] = value
        return True


MIN_ARRAY_NUMBERS = 1 << 16  # numbers in an array; smaller arrays do not matter
SAMPLED_ROWS, SAMPLED_NUMBERS_A_ROW = 64, 128  # read: rows from the whole array, and numbers from the whole of each row
MIN_LEVELS, MAX_LEVELS = 16, 256  # different numbers; fewer may be flags, or chance
MAX_SPACING_ERROR = 0.05  # of the spacing; the rounding error of 1/255 in float32 is below it


def quantised_level_count(array: Any) -> int | None:
    """Returns the number of different values if a uint8 with a scale can hold them all, else 0.

    Returns None if ``array`` is not a NumPy array in memory, or is too small to matter. Reads some thousand numbers.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or type(array) is not numpy.ndarray or array.dtype.name not in ("float32", "float64"):
        return None
    if array.ndim < 2 or array.size < MIN_ARRAY_NUMBERS:
        return None
    # No constant stride: it would read one channel of three, or one column of a table.
    within = numpy.arange(SAMPLED_NUMBERS_A_ROW) * 2_654_435_761 % (array.size // array.shape[0])
    rows = numpy.linspace(0, array.shape[0] - 1, min(SAMPLED_ROWS, array.shape[0])).astype(int)
    found = numpy.unique(numpy.concatenate([array[i].flat[within] for i in rows]))
    if not MIN_LEVELS <= len(found) <= MAX_LEVELS or not numpy.isfinite(found).all():
        return 0
    places = (found - found[0]) / numpy.diff(found).min()
    even = numpy.abs(places - numpy.round(places)).max() < MAX_SPACING_ERROR
    return len(found) if even and places[-1] < MAX_LEVELS - 0.5 else 0
