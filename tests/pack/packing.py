"""Packs a data set in this process, or in one that can be killed, and reads it back."""

from __future__ import annotations

import dataclasses
import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from slowtrain.model.packing import ElementForm, PackedFolder


def contents(folder: Path) -> dict[str, str]:
    """SHA-256 of each file in a folder."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def packed(dataset: Any, folder: Path, *, shard_bytes: int = 1 << 20, block: int | None = None) -> PackedFolder:
    from slowtrain.capture.packing import packing_job

    return packing_job.pack_datasets([dataset], job_for(dataset, folder, shard_bytes=shard_bytes, block=block))


def job_for(dataset: Any, folder: Path, *, shard_bytes: int = 1 << 20, block: int | None = None) -> Any:
    from slowtrain.capture.packing import element_records, packing_job

    form = element_records.describe_elements(dataset.element_spec)
    form = form if block is None else dataclasses.replace(form, block=block)
    return packing_job.PackingJob(str(folder), "plan", form, None, shard_bytes)


def read(form: ElementForm, folder: PackedFolder) -> list[Any]:
    """The elements of a packed folder, by the text that a script gets."""
    from slowtrain.capture.packing import packing_job

    return list(packing_job.reading_dataset(form, folder).as_numpy_iterator())


def run(folder: Path, text: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a text as a script in a folder."""
    script = folder / "run.py"
    script.write_text(textwrap.dedent(text))
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120, **options)
