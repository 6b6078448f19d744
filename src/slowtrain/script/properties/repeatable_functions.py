"""Whether a function of a script gives the same result at every call, and may run in parallel with itself."""

from __future__ import annotations

import ast

from slowtrain.script.navigation import call_index, class_members, node_lookup, project_files, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import RANDOM_CALLS, Source, cache_recent

RANDOM_PREFIXES = ("random_", "stateless_random", "Random", "sample_distorted", "stateless_sample", "rand_")
GENERATOR_MAKERS = frozenset({"default_rng", "RandomState"})
STATEFUL_METHODS = frozenset({"assign", "assign_add", "assign_sub", "scatter_update", "scatter_add"})
PYTHON_OPS = frozenset({"py_function", "numpy_function", "py_func", "EagerPyFunc"})
FIXED_LAYERS = frozenset({"Rescaling", "Resizing", "CenterCrop", "CategoryEncoding", "Discretization", "Hashing"})
# Libraries whose functions are deterministic, apart from their random ones.
DETERMINISTIC_LIBRARIES = (
    "tensorflow.", "numpy.", "math.", "os.", "io.", "json.", "struct.", "gzip.", "zlib.", "pickle.", "re.", "glob.",
    "pathlib.", "itertools.", "functools.", "collections.", "operator.", "string.", "base64.", "csv.", "wave.",
    "PIL.", "cv2.", "imageio.", "scipy.", "skimage.", "librosa.", "soundfile.", "pandas.", "h5py.", "zarr.", "pydicom.",
    "nibabel.", "keras.ops.", "keras.utils.", "tensorflow_io.", "copy.", "time.sleep", "datetime.datetime.strptime",
)  # fmt: skip
DETERMINISTIC_BUILTINS = frozenset(
    "abs all any bool bytearray bytes chr complex dict divmod enumerate filter float format frozenset getattr hash hex "
    "int isinstance iter len list map max memoryview min open ord pow print range repr reversed round set slice sorted "
    "str sum super tuple type zip ValueError IndexError StopIteration RuntimeError AssertionError".split()
)
VARIABLE_CLASSES = frozenset({"tensorflow.Variable", "keras.Variable"})
CHANGING_CALLS = frozenset(
    "next input time.time time.time_ns time.perf_counter time.monotonic datetime.datetime.now datetime.now "
    "datetime.date.today datetime.datetime.utcnow os.urandom uuid.uuid4 secrets.token_bytes os.getpid".split()
)


def may_vary_by_call(source: Source, function: ast.AST) -> bool:
    """Whether ``function`` (a lambda, a name, an attribute or a layer's constructor) may differ between calls."""
    start: ast.AST = function
    match function:
        case ast.Call():
            called = _call_method(source, function)
            if called is None:
                return node_lookup.called_name(function) not in FIXED_LAYERS
            start = called
        case ast.Name() | ast.Attribute() if not _is_tensorflow_attribute(source, function):
            found = project_files.named_function(source, function)
            if found is None:
                return isinstance(function, ast.Attribute) or _layer_may_vary(source, function)
            if found.source is not source:
                return _imported_may_vary(found)
            start = found.function
        case ast.Lambda() | ast.FunctionDef() | ast.Attribute():
            pass
        case _:
            return True
    return any(has_varying_result(source, n) for n in source.reachable_functions(start)) or _reads_variable(
        source, start
    )


def _is_tensorflow_attribute(source: Source, node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and scope_names.resolved_name(source, node).startswith("tensorflow.")


def _layer_may_vary(source: Source, name: ast.Name) -> bool:
    """Whether the object behind a name of the module may vary: a layer, or a function of another library."""
    stored = scope_names.binding_statements(source, name.id, source.tree)
    values = [n.value for n in stored if isinstance(n, ast.Assign)]
    return len(values) != 1 or not isinstance(values[0], ast.Call) or may_vary_by_call(source, values[0])


def _call_method(source: Source, call: ast.Call) -> ast.AST | None:
    """The ``__call__`` of the object that ``call`` constructs, for a class of this file: ``Frontend(cfg)``."""
    kind = next(
        (n for n in source.tree.body if isinstance(n, ast.ClassDef) and n.name == node_lookup.called_name(call)), None
    )
    return class_members.own_method(kind, "__call__") if kind is not None and isinstance(call.func, ast.Name) else None


def _is_frozen_model(source: Source, call: ast.Call) -> bool:
    """Whether ``call`` is of a model that is never trained, in inference mode: ``base(x)``."""
    name = scope_names.dotted_name(call.func)
    mode = node_lookup.argument_value(call, "training")
    written = [
        n.value for n in call_index.nodes_of_kind(source, ast.Assign)
        if isinstance(n, ast.Assign) and any(scope_names.dotted_name(t) == f"{name}.trainable" for t in n.targets)
    ]  # fmt: skip
    off = [isinstance(v, ast.Constant) and v.value is False for v in (*written, *([mode] if mode else []))]
    return bool(written) and all(off)


def _imported_may_vary(found: project_files.ImportedFunction, depth: int = 3) -> bool:
    parts = found.source.reachable_functions(found.function)
    return any(has_varying_result(found.source, n, depth) for n in parts) or _reads_variable(
        found.source, found.function
    )


def has_varying_result(source: Source, function: ast.AST, depth: int = 3) -> bool:
    """Whether its result may differ between calls: by random numbers, a clock, or code that is not in the project."""
    return draws_or_mutates(source, function) or any(
        not _is_deterministic_call(source, node, function, depth)
        for node in syntax_tree.walk(function)
        if isinstance(node, ast.Call)
    )


def _reads_variable(source: Source, start: ast.AST) -> bool:
    """Whether it reads a variable of TensorFlow, which training may change."""
    reached = source.reachable_functions(start)
    names = {n for f in reached for n in scope_names.read_names(f)}
    attributes = {n.attr for f in reached for n in syntax_tree.walk(f) if isinstance(n, ast.Attribute)}
    for node in call_index.nodes_of_kind(source, ast.Assign):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        stored = {t.attr for t in node.targets if isinstance(t, ast.Attribute)}
        variable = (
            scope_names.resolved_name(source, node.value.func) in VARIABLE_CLASSES
            or node_lookup.called_name(node.value) == "add_weight"
        )
        if variable and (names & scope_names.bound_names(node) or attributes & stored):
            return True
    return False


def _is_deterministic_call(source: Source, call: ast.Call, function: ast.AST, depth: int) -> bool:
    """Whether ``call`` calls the project's code, a library function that only computes or reads, or a method."""
    name = scope_names.dotted_name(call.func)
    first = name.partition(".")[0]
    if not first or first in ("self", "cls"):
        return True  # a method of a temporary value, or of the object itself
    if node_lookup.function_named(source, name.rpartition(".")[2]) is not None:
        return True
    imported = scope_names.import_aliases(source).get(first)
    if imported is not None or first in imported_names(source):
        if scope_names.resolved_name(source, call.func).startswith(DETERMINISTIC_LIBRARIES):
            return True
        other = project_files.imported_function(source, call.func) if depth else None
        return other is not None and not _imported_may_vary(other, depth - 1)
    inner = scope_names.bound_names(scope_names.scope_body(function)) | set(scope_names.parameter_names(function))
    if first in inner or "." not in name:
        return (
            "." in name
            or (name in DETERMINISTIC_BUILTINS and not scope_names.binding_statements(source, name, source.tree))
            or _is_fixed_layer(source, name)
            or _is_frozen_model(source, call)
        )
    return not _is_foreign(source, first)


def _is_fixed_layer(source: Source, name: str) -> bool:
    """Whether ``name`` is a deterministic layer of Keras, or a class of this file."""
    if any(isinstance(n, ast.ClassDef) and n.name == name for n in source.tree.body):
        return True
    values = [n.value for n in scope_names.binding_statements(source, name, source.tree) if isinstance(n, ast.Assign)]
    return len(values) == 1 and isinstance(values[0], ast.Call) and node_lookup.called_name(values[0]) in FIXED_LAYERS


def _is_foreign(source: Source, name: str) -> bool:
    """Whether a module-level name holds an object of a class that is not in this file, and no data."""
    values = [n.value for n in scope_names.binding_statements(source, name, source.tree) if isinstance(n, ast.Assign)]
    return any(
        isinstance(v, ast.Call) and not _is_fixed_layer(source, scope_names.dotted_name(v.func))
        and not scope_names.resolved_name(source, v.func).startswith(DETERMINISTIC_LIBRARIES)
        and scope_names.dotted_name(v.func) not in DETERMINISTIC_BUILTINS
        for v in values
    )  # fmt: skip


def draws_or_mutates(source: Source, function: ast.AST) -> bool:
    """Whether it draws random numbers, reads a clock, or changes something that outlives the call."""
    own = _seeded_generators(function)
    known, drawn = {id(n) for _, call in own for n in syntax_tree.walk(call.func)}, {name for name, _ in own}
    layers = _random_names(source) - drawn
    for node in syntax_tree.walk(function):
        if id(node) in known or (isinstance(node, ast.Attribute) and scope_names.dotted_name(node.value) in drawn):
            continue
        name = node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, ast.Name) and node.id in layers:
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            name = node.func.id
        if name.startswith(RANDOM_PREFIXES) or name in RANDOM_CALLS or name in STATEFUL_METHODS or name in layers:
            return True
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return True
        if isinstance(node, ast.Call) and (scope_names.resolved_name(source, node.func) in CHANGING_CALLS):
            return True
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return True
    return False


def _seeded_generators(function: ast.AST) -> list[tuple[str, ast.Call]]:
    """Generators that the function creates from a constant seed, so that they draw the same numbers again."""
    found = []
    for node in syntax_tree.walk(function):
        call = node.value if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if (
            not isinstance(call, ast.Call)
            or node_lookup.called_name(call) not in GENERATOR_MAKERS
            or not call.args
            or call.keywords
        ):
            continue
        parts = [n for a in call.args for n in syntax_tree.walk(a)]
        unknown = any(isinstance(n, ast.Call) or (isinstance(n, ast.Constant) and n.value is None) for n in parts)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not unknown:
            found.append((node.targets[0].id, call))
    return found


@cache_recent(4)
def _random_names(source: Source) -> frozenset[str]:
    """Names of the file that hold a random layer or a random generator."""
    found: set[str] = set()
    for node in call_index.nodes_of_kind(source, ast.Assign):
        if isinstance(node, ast.Assign):
            called = {
                scope_names.dotted_name(n.func).rpartition(".")[2]
                for n in syntax_tree.walk(node.value)
                if isinstance(n, ast.Call)
            }
            if any(n.startswith("Random") for n in called) or called & {"default_rng", "RandomState", "from_seed"}:
                found |= {_stored_name(n) for t in node.targets for n in syntax_tree.walk(t)}
    return frozenset(found - {""})


def _stored_name(node: ast.AST) -> str:
    """The name that a target stores to: ``rng`` of ``rng = ...``, ``self.rng = ...`` and ``rng[0] = ...``."""
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) or isinstance(node.ctx, ast.Load):
        return ""
    node = node.value if isinstance(node, ast.Subscript) else node
    return scope_names.dotted_name(node).rpartition(".")[2]


def may_run_in_parallel(source: Source, function: ast.expr, near: ast.AST) -> bool:
    """Whether several calls of ``function`` may run at the same time: no state passes from one to the next."""
    start: ast.AST = function
    if isinstance(function, (ast.Name, ast.Attribute)):
        found = project_files.named_function(source, function, near)
        if found is None:
            return True  # a layer, or a function of TensorFlow or another library
        source, start = found.source, found.function
    for inner in source.reachable_functions(start):
        for node in syntax_tree.walk(inner):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in STATEFUL_METHODS or name in PYTHON_OPS:
                return False
    return True


def imported_names(source: Source) -> set[str]:
    """Names that the file imports."""
    return {
        (a.asname or a.name).partition(".")[0]
        for n in call_index.nodes_of_kind(source, ast.Import, ast.ImportFrom)
        if isinstance(n, (ast.Import, ast.ImportFrom)) for a in n.names
    }  # fmt: skip
