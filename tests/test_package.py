"""The package as it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

import slowtrain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.skipif("SLOWTRAIN_TEST_WHEEL" not in os.environ, reason="not started by 'make test'")
def test_what_is_tested_is_the_wheel() -> None:
    assert Path(slowtrain.__file__).is_relative_to(sys.prefix)
    assert not Path(slowtrain.__file__).is_relative_to(ROOT / "src")


@pytest.mark.skipif("SLOWTRAIN_TEST_WHEEL" not in os.environ, reason="not started by 'make test'")
def test_the_wheel_has_every_file_of_the_source() -> None:
    def files(folder: Path) -> set[str]:
        found = (str(f.relative_to(folder)) for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
        # Beside the sources there may be what was compiled for another Python.
        return {name for name in found if not name.endswith(".so") or name.endswith(suffix)}

    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    assert files(Path(slowtrain.__file__).parent) == files(ROOT / "src/slowtrain") - {"capture/core/hot.c"}


COMPILES = shutil.which("cc") is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


@pytest.mark.skipif(sys.platform != "linux" or not COMPILES, reason="nothing is compiled here")
@pytest.mark.parametrize("compiler", ["cc", "false"])
def test_a_wheel_is_made_with_a_compiler_and_without(compiler: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "compiled.py"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(copy)]
    done = subprocess.run(command, env={**os.environ, "CC": compiler}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "slowtrain/capture/core/fast_path.py" in names
    assert [name for name in names if name.endswith((".so", ".c"))] == [
        f"slowtrain/capture/core/hot{sysconfig.get_config_var('EXT_SUFFIX')}"
    ] * (compiler == "cc")
    assert wheel.name.endswith("-none-any.whl") is (compiler == "false")


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[(Unreleased|{re.escape(slowtrain.__version__)})\]", changes, re.MULTILINE)


def test_it_is_typed() -> None:
    assert (Path(slowtrain.__file__).parent / "py.typed").exists()


def test_tensorflow_is_never_a_hard_dependency() -> None:
    assert not [need for need in PROJECT["dependencies"] if "tensorflow" in need or "keras" in need]


def test_every_dependency_has_its_reason() -> None:
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    needs = [*PROJECT["dependencies"], *(n for extra in PROJECT["optional-dependencies"].values() for n in extra)]
    names = {match.group() for need in needs if (match := re.match(r"[\w.-]+", need))}
    assert names
    assert not {name for name in names if f"`{name}`" not in page}


def test_the_installed_version_is_the_sources() -> None:
    try:
        installed = metadata.version("slowtrain")
    except metadata.PackageNotFoundError:
        pytest.skip("slowtrain is run from source, not installed")
    assert installed == slowtrain.__version__
