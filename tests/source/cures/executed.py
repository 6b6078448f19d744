"""Executes training scripts in the test's own process, in which TensorFlow is imported once for all tests."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def executed_names(text: str, folder: Path) -> dict[str, Any]:
    """The names that a script leaves. It becomes a file in ``folder``, because AutoGraph reads the source."""
    file = folder / f"train_{len(list(folder.iterdir()))}.py"
    file.write_text(text, encoding="utf-8")
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, str(file), "exec"), names)
    return names
