"""What no probe can keep to itself is named before anything runs."""

from __future__ import annotations

import pytest

from slowtrain.source import parse
from slowtrain.source.reading.writing import beyond


def named(text: str) -> list[tuple[int, str]]:
    source = parse("f.py", text)
    assert source is not None
    return list(beyond(source))


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
    ],
)
def test_what_acts_beyond(text: str, words: str) -> None:
    assert named(text) == [(2, words)]


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
    ],
)
def test_what_a_probe_redirects_is_not_named(text: str) -> None:
    assert named(text) == []


def test_each_module_once_in_the_order_of_lines() -> None:
    text = "import requests, subprocess\nsubprocess.run(1)\nrequests.get(2)\nsubprocess.run(3)"
    assert [line for line, _ in named(text)] == [2, 3]
