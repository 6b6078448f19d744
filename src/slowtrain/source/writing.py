"""What a script does that a probe cannot keep to itself: other processes, databases, services, shared places."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.source import Source

# Module of the call -> what it reaches. A probe redirects files that Python or TensorFlow opens (capture/redirect.py).
BEYOND = {
    "subprocess": "starts other programs",
    "sqlite3": "opens a database",
    "psycopg2": "opens a database",
    "sqlalchemy": "opens a database",
    "lmdb": "opens a database",
    "wandb": "reports to a service",
    "mlflow": "reports to a service",
    "comet_ml": "reports to a service",
    "neptune": "reports to a service",
    "requests": "calls a service",
    "urllib": "calls a service",
    "boto3": "writes to a cloud store",
    "gcsfs": "writes to a cloud store",
    "smtplib": "sends mail",
    "socket": "opens a connection",
}
COMMANDS = frozenset({"system", "popen", "spawnl", "spawnv", "execv", "execvp", "posix_spawn"})  # of os


def beyond(source: Source) -> Iterator[tuple[int, str]]:
    """Line and words of everything in ``source`` that acts where no probe can redirect it."""
    known: dict[str, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                if root in BEYOND:
                    known[(alias.asname or alias.name).partition(".")[0]] = root
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in BEYOND:
            for alias in node.names:
                known[alias.asname or alias.name] = (node.module or "").partition(".")[0]
    seen = set()
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        first = node.func
        while isinstance(first, (ast.Attribute, ast.Call)):
            first = first.value if isinstance(first, ast.Attribute) else first.func
        name = getattr(first, "id", "")
        if name in known and known[name] not in seen:
            seen.add(known[name])
            yield node.lineno, f"{known[name]} {BEYOND[known[name]]}"
        if name == "os" and isinstance(node.func, ast.Attribute) and node.func.attr in COMMANDS:
            yield node.lineno, f"os.{node.func.attr} starts other programs"
