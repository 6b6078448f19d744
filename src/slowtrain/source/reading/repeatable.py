"""Whether a function of a script gives the same result at every call, and may run in parallel with itself."""

from __future__ import annotations

import ast

from slowtrain.source import RANDOM, Source, trees
from slowtrain.source.reading import elsewhere, finding, index, objects, scopes

DRAWING = ("random_", "stateless_random", "Random", "sample_distorted", "stateless_sample", "rand_")
GENERATORS = frozenset({"default_rng", "RandomState"})
STATEFUL = frozenset({"assign", "assign_add", "assign_sub", "scatter_update", "scatter_add"})
CALLING_PYTHON = frozenset({"py_function", "numpy_function", "py_func", "EagerPyFunc"})
FIXED_LAYERS = frozenset({"Rescaling", "Resizing", "CenterCrop", "CategoryEncoding", "Discretization", "Hashing"})
# Libraries whose functions are deterministic, apart from their random ones.
LIBRARIES = (
    "tensorflow.", "numpy.", "math.", "os.", "io.", "json.", "struct.", "gzip.", "zlib.", "pickle.", "re.", "glob.",
    "pathlib.", "itertools.", "functools.", "collections.", "operator.", "string.", "base64.", "csv.", "wave.",
    "PIL.", "cv2.", "imageio.", "scipy.", "skimage.", "librosa.", "soundfile.", "pandas.", "h5py.", "zarr.", "pydicom.",
    "nibabel.", "keras.ops.", "keras.utils.", "tensorflow_io.", "copy.", "time.sleep", "datetime.datetime.strptime",
)  # fmt: skip
BUILTINS = frozenset(
    "abs all any bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset getattr hash hex "
    "int isinstance iter len list map max memoryview min open ord pow print range repr reversed round set slice sorted "
    "str sum super tuple type zip ValueError IndexError StopIteration RuntimeError AssertionError".split()
)
VARIABLES = frozenset({"tensorflow.Variable", "keras.Variable"})
CHANGING = frozenset(
    "next input time.time time.time_ns time.perf_counter time.monotonic datetime.datetime.now datetime.now "
    "datetime.date.today datetime.datetime.utcnow os.urandom uuid.uuid4 secrets.token_bytes os.getpid".split()
)


def drawing(source: Source, function: ast.AST) -> bool:
    """Whether ``function`` (a lambda, a name, an attribute or a layer's constructor) may differ between calls."""
    start: ast.AST = function
    if isinstance(function, ast.Call):
        called = _when_called(source, function)
        if called is None:
            return finding.called(function) not in FIXED_LAYERS
        start = called
    elif isinstance(function, ast.Name):
        found = finding.defined(source, function.id)
        other = elsewhere.function(source, function) if found is None else None
        if other is not None:
            return _drawing_elsewhere(other)
        if found is None:  # a layer, or a function of another library
            made = [n.value for n in scopes.binders(source, function.id, source.tree) if isinstance(n, ast.Assign)]
            return len(made) != 1 or not isinstance(made[0], ast.Call) or drawing(source, made[0])
        start = found
    elif isinstance(function, ast.Attribute) and not scopes.full(source, function).startswith("tensorflow."):
        found = finding.defined(source, function.attr)
        other = elsewhere.function(source, function) if found is None else None
        if other is not None:
            return _drawing_elsewhere(other)
        if found is None:
            return True
        start = found
    elif not isinstance(function, (ast.Lambda, ast.FunctionDef, ast.Attribute)):
        return True
    return any(draws(source, n) for n in source.called(start)) or _variable(source, start)


def _when_called(source: Source, made: ast.Call) -> ast.AST | None:
    """The ``__call__`` of the object that ``made`` constructs, for a class of this file: ``Frontend(cfg)``."""
    kind = next((n for n in source.tree.body if isinstance(n, ast.ClassDef) and n.name == finding.called(made)), None)
    return objects.method(kind, "__call__") if kind is not None and isinstance(made.func, ast.Name) else None


def _frozen(source: Source, call: ast.Call) -> bool:
    """Whether ``call`` is of a model that is never trained, in inference mode: ``base(x)``."""
    name = scopes.dotted(call.func)
    mode = finding.keyword(call, "training")
    written = [
        n.value for n in index.nodes(source, ast.Assign)
        if isinstance(n, ast.Assign) and any(scopes.dotted(t) == f"{name}.trainable" for t in n.targets)
    ]  # fmt: skip
    off = [isinstance(v, ast.Constant) and v.value is False for v in (*written, *([mode] if mode else []))]
    return bool(written) and all(off)


def _drawing_elsewhere(found: elsewhere.Found, depth: int = 3) -> bool:
    parts = found.source.called(found.function)
    return any(draws(found.source, n, depth) for n in parts) or _variable(found.source, found.function)


def draws(source: Source, function: ast.AST, depth: int = 3) -> bool:
    """Whether its result may differ between calls: by random numbers, a clock, or code that is not in the project."""
    return random(source, function) or any(
        not _known(source, node, function, depth) for node in trees.walk(function) if isinstance(node, ast.Call)
    )


def _variable(source: Source, start: ast.AST) -> bool:
    """Whether it reads a variable of TensorFlow, which training may change."""
    reached = source.called(start)
    names = {n for f in reached for n in scopes.read(f)}
    held = {n.attr for f in reached for n in trees.walk(f) if isinstance(n, ast.Attribute)}
    for node in index.nodes(source, ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        stored = {t.attr for t in node.targets if isinstance(t, ast.Attribute)}
        variable = scopes.full(source, node.value.func) in VARIABLES or finding.called(node.value) == "add_weight"
        if variable and (names & scopes.bound(node) or held & stored):
            return True
    return False


def _known(source: Source, call: ast.Call, function: ast.AST, depth: int) -> bool:
    """Whether ``call`` calls the project's code, a library function that only computes or reads, or a method."""
    name = scopes.dotted(call.func)
    first = name.partition(".")[0]
    if not first or first in ("self", "cls"):
        return True  # a method of a temporary value, or of the object itself
    if finding.defined(source, name.rpartition(".")[2]) is not None:
        return True
    imported = scopes.aliases(source).get(first)
    if imported is not None or first in modules(source):
        if scopes.full(source, call.func).startswith(LIBRARIES):
            return True
        other = elsewhere.function(source, call.func) if depth else None
        return other is not None and not _drawing_elsewhere(other, depth - 1)
    inner = scopes.bound(scopes.body(function)) | set(scopes.parameters(function))
    if first in inner or "." not in name:
        return (
            "." in name
            or (name in BUILTINS and not scopes.binders(source, name, source.tree))
            or _fixed(source, name)
            or _frozen(source, call)
        )
    return not _is_foreign(source, first)


def _fixed(source: Source, name: str) -> bool:
    """Whether ``name`` is a deterministic layer of Keras, or a class of this file."""
    if any(isinstance(n, ast.ClassDef) and n.name == name for n in source.tree.body):
        return True
    made = [n.value for n in scopes.binders(source, name, source.tree) if isinstance(n, ast.Assign)]
    return len(made) == 1 and isinstance(made[0], ast.Call) and finding.called(made[0]) in FIXED_LAYERS


def _is_foreign(source: Source, name: str) -> bool:
    """Whether a module-level name holds an object of a class that is not in this file, and no data."""
    made = [n.value for n in scopes.binders(source, name, source.tree) if isinstance(n, ast.Assign)]
    return any(
        isinstance(v, ast.Call) and not _fixed(source, scopes.dotted(v.func))
        and not scopes.full(source, v.func).startswith(LIBRARIES)
        and scopes.dotted(v.func) not in BUILTINS
        for v in made
    )  # fmt: skip


def random(source: Source, function: ast.AST) -> bool:
    """Whether it draws random numbers, reads a clock, or changes something that outlives the call."""
    own = _seeded(function)
    known, drawn = {id(n) for _, made in own for n in trees.walk(made.func)}, {name for name, _ in own}
    layers = _random_layers(source) - drawn
    for node in trees.walk(function):
        if id(node) in known or (isinstance(node, ast.Attribute) and scopes.dotted(node.value) in drawn):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Name) and node.id in layers:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        if name.startswith(DRAWING) or name in RANDOM or name in STATEFUL or name in layers:
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return True
        if isinstance(node, ast.Call) and (scopes.full(source, node.func) in CHANGING):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return True
    return False


def _seeded(function: ast.AST) -> list[tuple[str, ast.Call]]:
    """Generators that the function creates from a constant seed, so that they draw the same numbers again."""
    found = []
    for node in trees.walk(function):
        made = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(made, ast.Call) or finding.called(made) not in GENERATORS or not made.args or made.keywords:
            continue
        given = [n for a in made.args for n in trees.walk(a)]
        unknown = any(isinstance(n, ast.Call) or (isinstance(n, ast.Constant) and n.value is None) for n in given)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not unknown:
            found.append((node.targets[0].id, made))
    return found


def _random_layers(source: Source) -> set[str]:
    """Names of the file that hold a random layer or a random generator."""
    found: set[str] = set()
    for node in index.nodes(source, ast.Assign):
        if isinstance(node, ast.Assign):
            called = {
                scopes.dotted(n.func).rpartition(".")[2] for n in trees.walk(node.value) if isinstance(n, ast.Call)
            }
            if any(n.startswith("Random") for n in called) or called & {"default_rng", "RandomState", "from_seed"}:
                found |= {_stored(n) for t in node.targets for n in trees.walk(t)}
    return found - {""}


def _stored(node: ast.AST) -> str:
    """The name that a target stores to: ``rng`` of ``rng = ...``, ``self.rng = ...`` and ``rng[0] = ...``."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
        return ""
    node = node.value if isinstance(node, ast.Subscript) else node
    return scopes.dotted(node).rpartition(".")[2]


def alongside(source: Source, function: ast.expr, near: ast.AST) -> bool:
    """Whether several calls of ``function`` may run at the same time: no state passes from one to the next."""
    start: ast.AST | None = function
    if isinstance(function, ast.Name):
        start = finding.defined(source, function.id, near)
    elif isinstance(function, ast.Attribute):
        start = finding.defined(source, function.attr, near)
    other = elsewhere.function(source, function) if start is None else None
    if other is not None:
        source, start = other.source, other.function
    if start is None:
        return True  # a layer, or a function of TensorFlow or another library
    for inner in source.called(start):
        for node in trees.walk(inner):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in STATEFUL or name in CALLING_PYTHON:
                return False
    return True


def modules(source: Source) -> set[str]:
    """Names that the file imports."""
    return {
        (a.asname or a.name).partition(".")[0]
        for n in index.nodes(source, ast.Import, ast.ImportFrom)
        if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
    }  # fmt: skip
