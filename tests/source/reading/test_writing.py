"""What no probe can keep to itself is named before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from slowtrain.script.navigation import project_files
from slowtrain.script.properties.outside_effects import project_sources, unredirected_actions
from slowtrain.script.text.source_file import parse_source


def named(text: str) -> list[tuple[int, str]]:
    source = parse_source("f.py", text)
    assert source is not None
    return list(unredirected_actions(source))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import subprocess\nsubprocess.run(['rm', 'x'])", "subprocess starts other programs"),
        ("from subprocess import run as go\ngo(['rm'])", "subprocess starts other programs"),
        ("import os\nos.system('rm x')", "os.system starts other programs"),
        ("import os as o\no.execvp('a', [])", "os.execvp starts other programs"),
        ("from os import popen\npopen('ls')", "os.popen starts other programs"),
        ("import sqlite3\nsqlite3.connect('a').execute('x')", "sqlite3 opens a database"),
        ("import wandb\nwandb.init().log({})", "wandb reports to a service"),
        ("import mlflow.keras\nmlflow.keras.autolog()", "mlflow reports to a service"),
        ("import urllib.request\nurllib.request.urlopen('x')", "urllib calls a service"),
        ("import cv2\ncv2.imwrite('a.png', x)", "imwrite: OpenCV writes the file itself"),
        ("import pandas as pd\npd.DataFrame().to_parquet('a')", "to_parquet: Arrow writes the file itself"),
        ("from cv2 import imwrite\nimwrite('a.png', x)", "imwrite: OpenCV writes the file itself"),
        ("import netCDF4\nnetCDF4.Dataset('a', 'w')", "Dataset: netCDF writes the file itself"),
        ("import torch\ntorch.save(x, 'a.pt')", "save: PyTorch writes the file itself"),
        ("from safetensors.numpy import save_file\nsave_file(x, 'a')", "save_file: safetensors writes the file itself"),
        ("import soundfile as sf\nsf.write('a.wav', x, 8000)", "write: libsndfile writes the file itself"),
        ("import orbax.checkpoint as ocp\nocp.StandardCheckpointer().save('a', x)", "orbax writes through TensorStore"),
        (
            "import sentencepiece as spm\nspm.SentencePieceTrainer.train(input='a', model_prefix='m')",
            "train: SentencePiece writes the files itself",
        ),
        ("import polars as pl\nframe.write_csv('a')", "write_csv: Polars writes the file itself"),
        ("import polars as pl\npl.DataFrame(x).write_parquet('a')", "write_parquet: Polars writes the file itself"),
        ("import faiss\nfaiss.write_index(i, 'a')", "write_index: Faiss writes the file itself"),
        ("import xgboost as xgb\nbooster.save_model('a.json')", "save_model: the library writes the file itself"),
        ("import lightgbm\nlightgbm.Booster().save_model('a')", "save_model: the library writes the file itself"),
        ("import optuna\noptuna.create_study(storage='sqlite:///a')", "create_study(storage=…) opens a database"),
        ("import logging.handlers as h\nh.SMTPHandler('a')", "SMTPHandler: sends mail"),
        ("from logging import handlers\nhandlers.HTTPHandler('a')", "HTTPHandler: calls a service"),
        ("from google.cloud import storage\nstorage.Client()", "google.cloud calls a cloud service"),
        ("x = 1\ngrid.to_netcdf('a')", "to_netcdf: netCDF writes the file itself"),
        ("import asyncio\nasyncio.create_subprocess_exec('ls')", "create_subprocess_exec: starts other programs"),
        ("x = 1\nexec(text)", "exec runs code that could not be read beforehand"),
        ("x = 1\nloss = eval(config['loss'])", "eval runs code that could not be read beforehand"),
        (
            "import importlib\nimportlib.import_module(name)",
            "importlib.import_module runs code that could not be read beforehand",
        ),
    ],
)
def test_what_acts_beyond(text: str, words: str) -> None:
    ((line, said),) = named(text)
    assert line == 2
    assert said.startswith(words)


@pytest.mark.parametrize(
    "text",
    [
        "import tensorflow as tf\ntf.io.write_file('a', 'b')\ntf.data.Dataset.range(3).cache('a')",
        "import os\nos.remove('a')\nos.makedirs('b')",
        "import urllib.parse\nurllib.parse.quote('a')",
        "import subprocess  # imported only",
        "model.system('x')\nself.run()\nsubprocess = 1",
        "import imageio\nimageio.imwrite('a.png', x)",
        "open('a', 'w')",
        "import keras, xgboost\nkeras.models.save_model(m, 'a.keras')",
        "import torch\nmodel.save('a.keras')",
        "import pandas as pd\npd.DataFrame().write_csv('a')",
        "import optuna\noptuna.create_study(storage=None)",
        "import logging.handlers\nlogging.handlers.RotatingFileHandler('a')",
        "from google.protobuf import text_format\ntext_format.Merge(a, b)",
        "model.eval()\nast.literal_eval('1')",
        "def eval(model):\n    return 1\neval(model)",
        "from keras.backend import eval\neval(x)",
        "import importlib\nimportlib.import_module('data')",
    ],
)
def test_what_a_probe_redirects_is_not_named(text: str) -> None:
    assert named(text) == []


def test_each_module_once_in_the_order_of_lines() -> None:
    text = "import requests, subprocess\nsubprocess.run(1)\nrequests.get(2)\nsubprocess.run(3)"
    assert [line for line, _ in named(text)] == [2, 3]


def laid(folder: Path, *files: tuple[str, str]) -> None:
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def followed(script: Path) -> set[str]:
    """The files of a project that are read, by their names below its folder, without the script's own."""
    return {str(Path(s.file).relative_to(script.parents[1])) for s in project_sources(str(script))} - {
        str(script.relative_to(script.parents[1]))
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("import data", {"pkg/data.py", "pkg/deep.py"}),
        ("import other.far", {"pkg/other/__init__.py", "pkg/other/far.py"}),
        ("from . import data", {"pkg/__init__.py", "pkg/data.py", "pkg/deep.py"}),
        ("from .data import x", {"pkg/__init__.py", "pkg/data.py", "pkg/deep.py"}),
        ("from .other import far", {"pkg/__init__.py", "pkg/other/__init__.py", "pkg/other/far.py"}),
        ("from .. import top", {"top.py"}),
        ("from pkg.data import x", {"pkg/__init__.py", "pkg/data.py", "pkg/deep.py"}),
        ("import lib.tools", {"src/lib/__init__.py", "src/lib/tools.py"}),
        ("import importlib\nm = importlib.import_module('pkg.deep')", {"pkg/__init__.py", "pkg/deep.py"}),
        ("import tensorflow, json, gone", set()),
    ],
)
def test_what_a_script_imports_is_read(text: str, wanted: set[str], tmp_path: Path) -> None:
    laid(
        tmp_path,
        ("pkg/__init__.py", ""),
        ("pkg/train.py", text),
        ("pkg/data.py", "from pkg.deep import y"),
        ("pkg/deep.py", ""),
        ("pkg/other/__init__.py", ""),
        ("pkg/other/far.py", ""),
        ("top.py", ""),
        ("src/lib/__init__.py", "from .tools import t"),
        ("src/lib/tools.py", "import subprocess\nt = subprocess.run"),
    )
    if text == "import data":
        wanted = wanted | {"pkg/__init__.py"}  # deep is imported by the package's name
    assert followed(tmp_path / "pkg" / "train.py") == wanted


def test_what_lies_on_the_path_is_read_but_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, installed = tmp_path / "lab", tmp_path / "site-packages"
    laid(tmp_path, ("a/b/train.py", "import common\nimport theirs"), ("lab/common.py", ""))
    laid(installed, ("theirs.py", ""))
    monkeypatch.setattr(sys, "path", [str(lab), str(installed)])
    read = [Path(s.file).name for s in project_sources(str(tmp_path / "a" / "b" / "train.py"))]
    assert read == ["train.py", "common.py"]


def test_a_folder_is_its_main_file(tmp_path: Path) -> None:
    laid(tmp_path, ("app/__main__.py", "import data"), ("app/data.py", ""))
    assert [Path(s.file).name for s in project_sources(str(tmp_path / "app"))] == ["__main__.py", "data.py"]


def test_the_file_of_a_module_is_found_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "raise RuntimeError('nobody imports this')"
    laid(tmp_path, ("pkg/__init__.py", text), ("pkg/__main__.py", text), ("pkg/train.py", text))
    laid(tmp_path, ("src/lib/run.py", text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "src")])
    found = [
        project_files.main_file(name) for name in ("pkg", "pkg.train", "lib.run", "pkg.gone", "json.tool", "pytest")
    ]
    here = [tmp_path / name for name in ("pkg/__main__.py", "pkg/train.py", "src/lib/run.py")]
    assert found == [*here, None, None, None]
