"""Effects that a probe cannot contain (other programs, databases, services), and code that a reading does not reach."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from slowtrain.script.navigation import call_index, name_bindings, project_files
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source, read_source

MAX_PROJECT_FILES = 200  # files of one project that are read; takes a few seconds

# Start of the call's dotted name -> its effect. A probe redirects what Python, TensorFlow or h5py open
# in the process, so only writes of other programs, services and native code are listed.
MODULE_EFFECTS = {
    "subprocess": "starts other programs",
    "pexpect": "starts other programs",
    "joblib": "may start processes of its own kind",
    "ray": "starts processes of its own kind",
    "dask": "may start processes of its own kind",
    "sqlite3": "opens a database",
    "dbm": "opens a database",
    "shelve": "opens a database",
    "psycopg2": "opens a database",
    "pymysql": "opens a database",
    "pymongo": "opens a database",
    "redis": "opens a database",
    "sqlalchemy": "opens a database",
    "lmdb": "opens a database",
    "duckdb": "opens a database",
    "wandb": "reports to a service",
    "mlflow": "reports to a service",
    "comet_ml": "reports to a service",
    "neptune": "reports to a service",
    "clearml": "reports to a service",
    "requests": "calls a service",
    "httpx": "calls a service",
    "aiohttp": "calls a service",
    "urllib": "calls a service",
    "http": "calls a service",
    "huggingface_hub": "calls a service",
    "google.cloud": "calls a cloud service",
    "azure": "calls a cloud service",
    "boto3": "writes to a cloud store",
    "gcsfs": "writes to a cloud store",
    "s3fs": "writes to a cloud store",
    "smtplib": "sends mail",
    "socket": "opens a connection",
    "ftplib": "opens a connection",
    "paramiko": "opens a connection",
    "orbax": "writes through TensorStore, past Python",
    "tensorstore": "writes past Python",
}
HARMLESS_PREFIXES = frozenset({"urllib.parse", "urllib.error", "http.HTTPStatus"})
# Functions and classes by their last name: the package that has them, and the effect outside of Python.
WRITER_FUNCTIONS = {
    "imwrite": ("cv2", "OpenCV writes the file itself"),
    "VideoWriter": ("cv2", "OpenCV writes the file itself"),
    "open_file": ("tables", "PyTables writes the file itself"),
    "write_dataset": ("pyarrow", "Arrow writes the file itself"),
    "write_to_dataset": ("pyarrow", "Arrow writes the file itself"),
    "write_feather": ("pyarrow", "Arrow writes the file itself"),
    "ParquetWriter": ("pyarrow", "Arrow writes the file itself"),
    "Dataset": ("netCDF4", "netCDF writes the file itself"),
    "CDLL": ("ctypes", "C code is called"),
    "save": ("torch", "PyTorch writes the file itself"),
    "save_file": ("safetensors", "safetensors writes the file itself"),
    "save_model": ("safetensors", "safetensors writes the file itself"),
    "write": ("soundfile", "libsndfile writes the file itself"),
    "SoundFile": ("soundfile", "libsndfile writes the file itself"),
    "train": ("sentencepiece", "SentencePiece writes the files itself"),
    "Train": ("sentencepiece", "SentencePiece writes the files itself"),
    "write_index": ("faiss", "Faiss writes the file itself"),
    "RDBStorage": ("optuna", "opens a database"),
    "HTTPHandler": ("logging", "calls a service"),
    "SocketHandler": ("logging", "opens a connection"),
    "DatagramHandler": ("logging", "opens a connection"),
    "SysLogHandler": ("logging", "opens a connection"),
    "SMTPHandler": ("logging", "sends mail"),
    "create_subprocess_exec": ("asyncio", "starts other programs"),
    "create_subprocess_shell": ("asyncio", "starts other programs"),
}
POLARS_WRITERS = (
    *(f"write_{kind}" for kind in ("parquet", "csv", "json", "ndjson", "ipc", "ipc_stream", "avro")),
    *(f"sink_{kind}" for kind in ("parquet", "csv", "ndjson", "ipc")),
)
# Methods by name, of objects of any origin. If packages are given, the file must import one of them.
WRITER_METHODS: dict[str, tuple[frozenset[str], str]] = {
    "to_parquet": (frozenset(), "Arrow writes the file itself"),
    "to_feather": (frozenset(), "Arrow writes the file itself"),
    "to_orc": (frozenset(), "Arrow writes the file itself"),
    "write_table": (frozenset(), "Arrow writes the file itself"),
    "to_hdf": (frozenset(), "PyTables writes the file itself"),
    "to_netcdf": (frozenset(), "netCDF writes the file itself"),
    "save_model": (frozenset({"xgboost", "lightgbm", "catboost"}), "the library writes the file itself"),
    "save_pretrained": (frozenset({"transformers"}), "tokenizers and safetensors write files themselves"),
    **dict.fromkeys(POLARS_WRITERS, (frozenset({"polars"}), "Polars writes the file itself")),
}
EFFECT_KEYWORDS = {"storage": ("optuna", "opens a database")}
OS_COMMANDS = frozenset(
    {"system", "popen", "posix_spawn", "posix_spawnp", "startfile"}
    | {f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
)  # of os
CODE_BUILTINS = frozenset({"exec", "eval", "__import__"})
CODE_LOADERS = CODE_BUILTINS | {
    "importlib.import_module",
    "importlib.util.spec_from_file_location",
    "runpy.run_path",
    "runpy.run_module",
}


def unredirected_actions(source: Source) -> Iterator[tuple[int, str]]:
    """Line and description of everything in ``source`` that acts where no probe can redirect it, each module once."""
    known = dict(_import_names(source))
    seen: set[str] = set()
    for node in sorted(call_index.nodes_of_class(source, ast.Call), key=lambda n: n.lineno):
        dotted = _dotted_callee(node.func, known) or _builtin_name(source, node)
        effect = _call_effect(node, dotted, known)
        module = next((m for m in MODULE_EFFECTS if f"{dotted}.".startswith(f"{m}.")), "")
        if effect:
            yield node.lineno, effect
        elif module and module not in seen and not any(dotted.startswith(one) for one in HARMLESS_PREFIXES):
            seen.add(module)
            yield node.lineno, f"{module} {MODULE_EFFECTS[module]}"


def _call_effect(node: ast.Call, dotted: str, known: Mapping[str, str]) -> str:
    """What this call does outside of Python; "" if nothing is known."""
    root, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
    if root == "os" and last in OS_COMMANDS:
        return f"{dotted} starts other programs"
    if dotted in CODE_LOADERS and not project_files.dynamic_import_name(node):
        return f"{dotted} runs code that could not be read beforehand"
    if last in WRITER_FUNCTIONS and WRITER_FUNCTIONS[last][0] == root:
        return f"{last}: {WRITER_FUNCTIONS[last][1]}"
    packages, says = WRITER_METHODS.get(last, (frozenset(), ""))
    here = {root} if root else {one.partition(".")[0] for one in known.values()}
    if says and (not packages or packages & here):
        return f"{last}: {says}"
    for keyword in node.keywords:
        package, says = EFFECT_KEYWORDS.get(keyword.arg or "", ("", ""))
        if says and package == root and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is None):
            return f"{last}({keyword.arg}=…) {says}"
    return ""


def _builtin_name(source: Source, call: ast.Call) -> str:
    """The name of the Python builtin that is called, if the file does not bind that name itself."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in CODE_BUILTINS or name_bindings.bindings_of(name_bindings.binding_scope(source, call, name), name):
        return ""
    return name


def _import_names(source: Source) -> Iterator[tuple[str, str]]:
    """Each imported name of the file and the dotted name it was imported from."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted_callee(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of a callee by its import; a call in the chain counts as its callee."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    first = known.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([first, *reversed(parts)])


def project_sources(script: str) -> Iterator[Source]:
    """The script and the user's own files that it imports, directly or not."""
    first = Path(script).resolve()
    first = first / "__main__.py" if first.is_dir() else first
    folders, todo, seen = project_files.search_folders(first), [first], set[Path]()
    while todo and len(seen) < MAX_PROJECT_FILES:
        path = todo.pop(0)
        source = read_source(str(path)) if path not in seen else None
        seen.add(path)
        if source is not None:
            yield source
            todo += project_files.imported_files(source, folders)


EXECUTING_BUILTINS = ("exec", "eval")
# Keywords of Keras's fit only; a scaler's or an estimator's fit trains no network.
KERAS_FIT_KEYWORDS = frozenset(
    {"epochs", "initial_epoch", "steps_per_epoch", "validation_data", "batch_size", "callbacks"}
)


def executed_texts(source: Source) -> Iterator[tuple[int, str]]:
    """Line and name of each call of Python's ``exec`` and ``eval``."""
    calls = [c for c in call_index.index_of(source).calls_of(*EXECUTING_BUILTINS) if isinstance(c.func, ast.Name)]
    own = set(_defined_names(source)) if calls else set[str]()
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id not in own:
            yield call.lineno, call.func.id


def _defined_names(source: Source) -> Iterator[str]:
    """Names that the file itself binds: a user's function called ``eval`` executes no text."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, FUNCTION_NODES):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def keras_fit_calls(source: Source) -> list[ast.Call]:
    """Calls of Keras's ``fit``."""
    return [
        c for c in call_index.index_of(source).calls_of("fit") if any(k.arg in KERAS_FIT_KEYWORDS for k in c.keywords)
    ]
