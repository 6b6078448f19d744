"""Causes that another distribution brings through the entry point group ``slowtrain.causes``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CLASS = '''
from slowtrain.causes import Cause
from slowtrain.model import Evidence, Signal


class SlowLogger(Cause[Evidence]):
    """A logger of ours."""

    title = "the logger of Acme is slow"
    needs = frozenset({Signal.STEPS})

    def find(self, trace):
        return None

    def remedies(self, trace, evidence):
        return []

    def cures(self, trace, evidence):
        return []
'''
TRACES = "fires: always\n    step    1\n    python  p\n\nquiet\n    step    1\n    device  d\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder for the path, with a distribution that brings one cause."""
    folder = tmp_path / "acme_causes/host/slow_logger"
    folder.mkdir(parents=True)
    for package in (tmp_path / "acme_causes", folder.parent):
        (package / "__init__.py").touch()
    (folder / "__init__.py").write_text(CLASS)
    (folder / "page.md").write_text("A logger of ours.\n\n## What to do\nLess.\n")
    (folder / "traces.txt").write_text(TRACES)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[slowtrain.causes]\nacme = acme_causes\n")
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


SHOWN = """
from slowtrain.causes import all_causes, cause_by_id
from slowtrain.lint import lint_settings
(cause,) = [c for c in all_causes() if c.id == "host/slow-logger"]
known = "host/slow-logger" in lint_settings.known_ids()
print(cause.fires, cause_by_id("host/slow-logger") is not None, len(all_causes()), known)
"""


def test_its_causes_are_among_all(installed: Path) -> None:
    done = run(installed, "-W", "error", "-c", SHOWN)
    assert done.returncode == 0, done.stderr
    fires, shown = done.stdout.rsplit(") ", 1)
    assert fires == "('step    1\\npython  p',"
    assert (shown.split()[0], shown.split()[2]) == ("True", "True")


def test_explain_knows_them(installed: Path) -> None:
    done = run(installed, "-m", "slowtrain", "explain", "slow-logger")
    assert done.stdout.startswith("host/slow-logger: the logger of Acme is slow\n\nA logger of ours.\n"), done.stderr


def test_a_fault_in_them_costs_no_cause_of_ours(installed: Path) -> None:
    (installed / "acme_causes/host/slow_logger/__init__.py").write_text("import no_such_module\n")
    done = run(installed, "-c", "from slowtrain.causes import all_causes; print(len(all_causes()) > 50)")
    assert (done.returncode, done.stdout) == (0, "True\n")
    assert "the causes of acme_causes were not loaded: ModuleNotFoundError" in done.stderr
