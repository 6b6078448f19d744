"""Effects of a script that a probe cannot contain: other programs, databases, services, libraries that write files."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from slowtrain.source import Source, read, trees
from slowtrain.source.reading import modules, values

MOST = 200  # files of one project that are read; takes a few seconds

# Start of the call's dotted name -> its effect. A probe redirects what Python, TensorFlow or h5py open
# in the process, so only writes of other programs, services and native code are listed.
BEYOND = {
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
HARMLESS = frozenset({"urllib.parse", "urllib.error", "http.HTTPStatus"})
# Functions and classes by their last name: the package that has them, and the effect outside of Python.
WRITERS = {
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
POLARS = (
    *(f"write_{kind}" for kind in ("parquet", "csv", "json", "ndjson", "ipc", "ipc_stream", "avro")),
    *(f"sink_{kind}" for kind in ("parquet", "csv", "ndjson", "ipc")),
)
# Methods by name, of objects of any origin. If packages are given, the file must import one of them.
METHODS: dict[str, tuple[frozenset[str], str]] = {
    "to_parquet": (frozenset(), "Arrow writes the file itself"),
    "to_feather": (frozenset(), "Arrow writes the file itself"),
    "to_orc": (frozenset(), "Arrow writes the file itself"),
    "write_table": (frozenset(), "Arrow writes the file itself"),
    "to_hdf": (frozenset(), "PyTables writes the file itself"),
    "to_netcdf": (frozenset(), "netCDF writes the file itself"),
    "save_model": (frozenset({"xgboost", "lightgbm", "catboost"}), "the library writes the file itself"),
    "save_pretrained": (frozenset({"transformers"}), "tokenizers and safetensors write files themselves"),
    **dict.fromkeys(POLARS, (frozenset({"polars"}), "Polars writes the file itself")),
}
KEYWORDS = {"storage": ("optuna", "opens a database")}
COMMANDS = frozenset(
    {"system", "popen", "posix_spawn", "posix_spawnp", "startfile"}
    | {f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
)  # of os
BUILT_IN = frozenset({"exec", "eval", "__import__"})
OTHER_CODE = BUILT_IN | {
    "importlib.import_module",
    "importlib.util.spec_from_file_location",
    "runpy.run_path",
    "runpy.run_module",
}


def beyond(source: Source) -> Iterator[tuple[int, str]]:
    """Line and description of everything in ``source`` that acts where no probe can redirect it, each module once."""
    known = dict(_imported(source))
    seen: set[str] = set()
    for node in sorted((n for n in trees.walk(source.tree) if isinstance(n, ast.Call)), key=lambda n: n.lineno):
        dotted = _dotted(node.func, known) or _built_in(source, node)
        said = _alone(node, dotted, known)
        module = next((m for m in BEYOND if f"{dotted}.".startswith(f"{m}.")), "")
        if said:
            yield node.lineno, said
        elif module and module not in seen and not any(dotted.startswith(one) for one in HARMLESS):
            seen.add(module)
            yield node.lineno, f"{module} {BEYOND[module]}"


def _alone(node: ast.Call, dotted: str, known: Mapping[str, str]) -> str:
    """What this call does outside of Python; "" if nothing is known."""
    root, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
    if root == "os" and last in COMMANDS:
        return f"{dotted} starts other programs"
    if dotted in OTHER_CODE and not modules.by_name(node):
        return f"{dotted} runs code that could not be read beforehand"
    if last in WRITERS and WRITERS[last][0] == root:
        return f"{last}: {WRITERS[last][1]}"
    packages, says = METHODS.get(last, (frozenset(), ""))
    here = {root} if root else {one.partition(".")[0] for one in known.values()}
    if says and (not packages or packages & here):
        return f"{last}: {says}"
    for given in node.keywords:
        package, says = KEYWORDS.get(given.arg or "", ("", ""))
        if says and package == root and not (isinstance(given.value, ast.Constant) and given.value.value is None):
            return f"{last}({given.arg}=…) {says}"
    return ""


def _built_in(source: Source, call: ast.Call) -> str:
    """The name of the Python builtin that is called, if the file does not bind that name itself."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in BUILT_IN or values.stores(values.scope(source, call, name), name):
        return ""
    return name


def _imported(source: Source) -> Iterator[tuple[str, str]]:
    """Each imported name of the file and the dotted name it was imported from."""
    for node in trees.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of a callee by its import; a call in the chain counts as its callee."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    first = known.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([first, *reversed(parts)])


def project(script: str) -> Iterator[Source]:
    """The script and the user's own files that it imports, directly or not."""
    first = Path(script).resolve()
    first = first / "__main__.py" if first.is_dir() else first
    folders, todo, seen = modules.roots(first), [first], set[Path]()
    while todo and len(seen) < MOST:
        path = todo.pop(0)
        source = read(str(path)) if path not in seen else None
        seen.add(path)
        if source is not None:
            yield source
            todo += modules.imported(source, folders)
