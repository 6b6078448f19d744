"""Finds containers and arrays by the user's names: globals, attributes of the user's objects, variables of functions.

No method of the user's is called, whatever an object claims to be. Types are read with ``type()``, lengths with the
built-in types' own methods, attributes from the dictionary that a class gives its objects. References are dropped
after each walk, so that nothing lives longer than the walk because of it.
"""

from __future__ import annotations

import functools
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from slowtrain.capture.inspection import container_contents, user_code
from slowtrain.capture.inspection.container_contents import MAX_SMALL_LENGTH, type_fields, type_name
from slowtrain.capture.inspection.container_contents import instance_fields as fields_of

MAX_WALK_NODES = 1200  # visited in one walk: 1 to 2 ms
MAX_DICT_ENTRIES = 400  # read of one dictionary
MAX_PATH_NAMES = 4  # names in a path
MAX_STACK_FRAMES = 60
MIN_ARRAY_BYTES = 4096  # smaller arrays neither fill memory nor take time to read
NOTEBOOK_FILE = ""  # in place of a file: names that cells of a notebook made
MIN_CONTAINER_LENGTH = 2  # shorter containers are not reported, because they hold the program's own parts

_CONTAINERS = (list, dict, set, deque)
_watched_callbacks: deque[weakref.ref[Any]] = deque(maxlen=32)  # given to fit, with no other name of the user's
_first_root = [0]  # the root at which the next walk begins, if a walk could not visit all


@dataclass(frozen=True)
class NamedContainer:
    """A container. ``path`` follows the file and is what the user would write; ``about()`` returns more facts.

    The ``length`` of an array is in bytes.
    """

    path: str
    length: int
    about: Callable[[], dict[str, Any]]


class _Node(NamedTuple):  # made for each visited name, in a third of the time that a dataclass takes
    value: Any
    path: str
    file: str
    owner: str  # function, class or "" for a module
    name: str  # the last name, which is looked up in the source
    depth: int


def watch_attributes(callback: Any) -> None:
    """Includes the attributes of this object in all walks, as long as it lives."""
    if all(known() is not callback for known in _watched_callbacks):
        _watched_callbacks.append(weakref.ref(callback))


def walk_containers(*, local: bool) -> Iterator[NamedContainer]:
    """Yields containers by the user's names. ``local`` includes the variables of functions in progress."""
    modules = _user_modules()
    roots = list(_walk_roots(modules, local))
    seen: set[int] = set()
    arrays = container_contents.array_sizes_by_type()
    left = MAX_WALK_NODES
    first = _first_root[0] % max(len(roots), 1)
    _first_root[0] = 0
    for number in range(len(roots)):
        at = (first + number) % len(roots)
        queue: deque[_Node] = deque([roots[at]])
        while queue:
            if left <= 0:
                _first_root[0] = at
                return
            left -= 1
            node = queue.popleft()
            if id(node.value) in seen:
                continue
            seen.add(id(node.value))
            array = arrays.get(id(type(node.value)))
            if array is not None:
                size = array(node.value)
                if size >= MIN_ARRAY_BYTES:
                    yield NamedContainer(
                        _container_path(node),
                        size,
                        functools.partial(_describe_container, node, container_contents.describe_array),
                    )
                continue
            length = _container_length(node.value)
            if length >= MIN_CONTAINER_LENGTH and node.depth:
                yield NamedContainer(
                    _container_path(node),
                    length,
                    functools.partial(_describe_container, node, container_contents.describe_contents),
                )
            if node.depth < MAX_PATH_NAMES:
                queue.extend(_inner_nodes(node, length, modules))


class _UserModules:
    """The user's modules and their files. Only new ones are examined: TensorFlow imports some three thousand."""

    def __init__(self) -> None:
        self._known = 0
        self._files: dict[str, str] = {}

    def __call__(self) -> dict[str, str]:
        names = list(sys.modules)
        if len(names) < self._known:  # some were removed
            self._known = 0
        for name in names[self._known :]:
            module = sys.modules.get(name)
            if type(module) is ModuleType:
                file = module.__dict__.get("__file__")
                if type(file) is str and file.endswith(".py") and user_code.is_user_file(file):
                    self._files[name] = file
                elif file is None and name == "__main__":
                    self._files[name] = NOTEBOOK_FILE
        self._known = len(names)
        return self._files


_user_modules = _UserModules()


def _walk_roots(modules: Mapping[str, str], local: bool) -> Iterator[_Node]:
    for name, file in modules.items():
        module = sys.modules.get(name)
        if type(module) is ModuleType:
            yield _Node(module.__dict__, "", file, "", "", 0)
    for known in list(_watched_callbacks):
        callback = known()
        if callback is not None:
            yield _Node(callback, type_name(type(callback)), "", "", "", 0)
    with user_code.paused_collector():
        found = list(_local_variables()) if local else []
    yield from found


def _local_variables() -> Iterator[_Node]:
    """Yields the variables of the user's functions in progress, in all threads."""
    for leaf in list(sys._current_frames().values()):
        frame: FrameType | None = leaf
        for _ in range(MAX_STACK_FRAMES):
            if frame is None:
                break
            code = frame.f_code
            if code.co_name != "<module>" and user_code.is_user_code(code):
                yield _Node(dict(frame.f_locals), "", code.co_filename, code.co_name, "", 0)
            frame = frame.f_back


def _container_length(value: Any) -> int:
    """Returns the length of a built-in container or a subclass of one; -1 for anything else."""
    kind = type(value)
    length = _LENGTH_METHODS.get(id(kind))
    if length is not None:
        return int(length(value))
    for base in _CONTAINERS:
        if issubclass(kind, base):
            return int(base.__len__(container_contents.unwrap_list(value)))
    return -1


def _inner_nodes(node: _Node, length: int, modules: Mapping[str, str]) -> Iterator[_Node]:
    value, kind = node.value, type(node.value)
    deeper = node.depth + 1
    try:
        if kind is dict and (node.depth == 0 or length <= MAX_SMALL_LENGTH):
            for key, item in list(value.items())[:MAX_DICT_ENTRIES]:
                if type(key) is str and _is_worth_visiting(item):
                    path = f"{node.path}[{key!r}]" if node.depth else key
                    yield _Node(item, path, node.file, node.owner, node.name if node.depth else key, deeper)
        elif (kind is list or kind is tuple) and len(value) <= MAX_SMALL_LENGTH:
            for i, item in enumerate(list(value)):
                if _is_worth_visiting(item):
                    yield _Node(item, f"{node.path}[{i}]", node.file, node.owner, node.name, deeper)
        elif kind is FunctionType:
            yield from _closure_nodes(node, value)
        elif kind is MethodType:
            yield _Node(value.__self__, node.path, node.file, node.owner, node.name, deeper)
        else:
            yield from _attribute_nodes(node, kind, modules)
    except (RuntimeError, ValueError, AttributeError):  # changed during the walk, or an empty cell
        return


def _closure_nodes(node: _Node, function: FunctionType) -> Iterator[_Node]:
    """Yields variables of the enclosing function that a function of the user's keeps."""
    code = function.__code__
    if user_code.is_user_code(code):
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
            if _is_worth_visiting(item := cell.cell_contents):
                yield _Node(item, name, code.co_filename, code.co_name, name, node.depth + 1)


def _attribute_nodes(node: _Node, kind: type, modules: Mapping[str, str]) -> Iterator[_Node]:
    """Yields the attributes of an object whose class is the user's, or of that class itself."""
    owner = node.value if kind is type else kind
    fields = dict(type_fields(owner)) if kind is type else fields_of(node.value, kind)
    about = type_fields(owner)
    module = about.get("__module__")
    file = modules.get(module) if type(module) is str else None
    if file is None or type(fields) is not dict:
        return
    name = str(type_name(owner))
    for key, item in list(fields.items())[:MAX_DICT_ENTRIES]:
        if type(key) is str and not key.startswith("__") and _is_worth_visiting(item):
            yield _Node(item, f"{node.path}.{key}", file, name, key, node.depth + 1)


_LEAF_TYPES = container_contents.PLAIN_TYPES | frozenset(map(id, (type(None), ModuleType, type(len))))
_LENGTH_METHODS = {id(kind): kind.__len__ for kind in _CONTAINERS}


def _is_worth_visiting(item: Any) -> bool:
    return id(type(item)) not in _LEAF_TYPES


def _container_path(node: _Node) -> str:
    return f"{node.file}|{node.owner}|{node.path}"


def _describe_container(node: _Node, describe: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Returns where a growing container is named, and what it holds."""
    named = {"file": node.file, "owner": node.owner, "path": node.path.lstrip("."), "named": node.name}
    return named | describe(node.value)
