"""What a script does that a probe cannot keep to itself: other programs, databases, services, libraries that write."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from slowtrain.source import Source, read, trees

# Module of the call -> what it reaches. A probe redirects what Python, TensorFlow or h5py open (capture/redirect.py).
BEYOND = {
    "subprocess": "starts other programs",
    "joblib": "may start processes of its own kind",
    "ray": "starts processes of its own kind",
    "dask": "may start processes of its own kind",
    "sqlite3": "opens a database",
    "dbm": "opens a database",
    "shelve": "opens a database",
    "psycopg2": "opens a database",
    "pymongo": "opens a database",
    "redis": "opens a database",
    "sqlalchemy": "opens a database",
    "lmdb": "opens a database",
    "wandb": "reports to a service",
    "mlflow": "reports to a service",
    "comet_ml": "reports to a service",
    "neptune": "reports to a service",
    "clearml": "reports to a service",
    "requests": "calls a service",
    "urllib": "calls a service",
    "http": "calls a service",
    "boto3": "writes to a cloud store",
    "gcsfs": "writes to a cloud store",
    "s3fs": "writes to a cloud store",
    "smtplib": "sends mail",
    "socket": "opens a connection",
}
HARMLESS = frozenset({"urllib.parse", "urllib.error", "http.HTTPStatus"})
# Functions by the end of their name, and what writes past Python.
WRITERS = {
    "imwrite": ("cv2", "OpenCV writes the file itself"),
    "VideoWriter": ("cv2", "OpenCV writes the file itself"),
    "to_parquet": ("", "Arrow writes the file itself"),
    "to_feather": ("", "Arrow writes the file itself"),
    "to_hdf": ("", "PyTables writes the file itself"),
    "open_file": ("tables", "PyTables writes the file itself"),
    "write_table": ("", "Arrow writes the file itself"),
    "Dataset": ("netCDF4", "netCDF writes the file itself"),
    "CDLL": ("ctypes", "C code is called"),
}
COMMANDS = frozenset(
    {"system", "popen", "posix_spawn", "posix_spawnp", "startfile"}
    | {f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
)  # of os


def beyond(source: Source) -> Iterator[tuple[int, str]]:
    """Line and words of everything in ``source`` that acts where no probe can redirect it, each module once."""
    known = dict(_imported(source))
    seen: set[str] = set()
    for node in sorted((n for n in trees.walk(source.tree) if isinstance(n, ast.Call)), key=lambda n: n.lineno):
        dotted = _dotted(node.func, known)
        root, last = dotted.partition(".")[0], dotted.rpartition(".")[2]
        if root == "os" and last in COMMANDS:
            yield node.lineno, f"{dotted} starts other programs"
        elif last in WRITERS and WRITERS[last][0] in ("", root):
            yield node.lineno, f"{last}: {WRITERS[last][1]}"
        elif root in BEYOND and root not in seen and not any(dotted.startswith(one) for one in HARMLESS):
            seen.add(root)
            yield node.lineno, f"{root} {BEYOND[root]}"


def _imported(source: Source) -> Iterator[tuple[str, str]]:
    """A name of the file, and the dotted name that it was imported from."""
    for node in trees.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def _dotted(node: ast.expr, known: dict[str, str]) -> str:
    """The dotted name of what is called, by its import; calls within it count as what they are called on."""
    parts: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    first = known.get(node.id, "") if isinstance(node, ast.Name) else ""
    return ".".join([first, *reversed(parts)])


def project(script: str, most: int = 50) -> Iterator[Source]:
    """The script and the modules beside it (or below its folder) that it imports, directly or not."""
    folder, todo, seen = Path(script).resolve().parent, [Path(script).resolve()], set[Path]()
    while todo and len(seen) < most:
        path = todo.pop(0)
        source = read(str(path)) if path not in seen else None
        seen.add(path)
        if source is None:
            continue
        yield source
        for name in _modules(source):
            parts = name.split(".")
            todo += [
                p
                for p in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py"))
                if p.is_file()
            ]


def _modules(source: Source) -> Iterator[str]:
    for node in trees.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
