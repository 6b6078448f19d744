from __future__ import annotations

from collections.abc import Callable

import pytest

from slowtrain.causes.machine.limited_host import fix
from slowtrain.model import Edit
from slowtrain.script.text import edits, source_file
from slowtrain.script.text.source_file import Source

HEAD = "import os\nimport tensorflow as tf\n"
SET = "tf.config.threading.set_intra_op_parallelism_threads"


def changed(text: str, cure: Callable[[Source], tuple[Edit, ...]], head: str = HEAD) -> str | None:
    parsed = source_file.parse_source("train.py", head + text)
    assert parsed is not None
    done = cure(parsed)
    new = edits.edited_text(parsed, done)
    compile(new, "train.py", "exec")
    assert new.startswith(head)
    return new.removeprefix(head) if done else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"{SET}(num_threads=1)  # the cluster's rule, ask Jo\nx = 1\n", "# the cluster's rule, ask Jo\nx = 1\n"),
        (f"if polite:\n    {SET}(1)\n", f"if polite:\n    {SET}(0)\n"),
        (f"def setup():\n    {SET}(2)\n", f"def setup():\n    {SET}(0)\n"),
        (f"{SET}(1); x = 1\n", "pass; x = 1\n"),
        ("from tensorflow.config import threading\nthreading.set_inter_op_parallelism_threads(1)\nx = 1\n",
         "from tensorflow.config import threading\nx = 1\n"),
        ('os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")\nx = 1\n', "x = 1\n"),
        ('if a:\n    os.environ["OMP_NUM_THREADS"] = "1"\n', "if a:\n    pass\n"),
        ("c = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, allow_soft_placement=True)\n",
         "c = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=0, allow_soft_placement=True)\n"),
    ],
)  # fmt: skip
def test_threads_that_the_script_sets_are_left_to_tensorflow(old: str, new: str) -> None:
    assert changed(old, fix.thread_limit_edits) == new


@pytest.mark.parametrize(
    "text",
    [
        f"{SET}(0)\n",
        f"{SET}(int(os.environ['CPUS']))\n",
        f"{SET}(args.threads)\ntf.config.threading.set_inter_op_parallelism_threads(1)\n",
        'os.environ["OMP_NUM_THREADS"] = str(n)\n',
        'os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
        "pool.set_intra_op_parallelism_threads(1)\n",
    ],
)
def test_numbers_from_elsewhere_stay(text: str) -> None:
    assert changed(text, fix.thread_limit_edits) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('if hasattr(os, "sched_setaffinity"):\n    os.sched_setaffinity(0, [0, 1])\nx = 1\n', "x = 1\n"),
        (
            'if hasattr(os, "sched_setaffinity"):\n    os.sched_setaffinity(0, [0])\nelse:\n    warn()\n',
            'if hasattr(os, "sched_setaffinity"):\n    pass\nelse:\n    warn()\n',
        ),
        ("from os import sched_setaffinity\nsched_setaffinity(0, {1})\n", "from os import sched_setaffinity\n"),
        ("import psutil\npsutil.Process().cpu_affinity([0])\nx = 1\n", "import psutil\nx = 1\n"),
        ('os.system(f"taskset -cp 0 {os.getpid()}")\nx = 1\n', "x = 1\n"),
        ("try:\n    os.sched_setaffinity(0, {0})\nexcept OSError:\n    x = 1\n",
         "try:\n    pass\nexcept OSError:\n    x = 1\n"),
        # Each worker its own core: that plan is kept where there are several.
        ('n = os.environ["WORLD_SIZE"]\ndef pin(rank):\n    os.sched_setaffinity(0, {rank})\n    print(n)\n',
         ('n = os.environ["WORLD_SIZE"]\ndef pin(rank):\n    if int(os.environ.get("WORLD_SIZE", "1")) > 1:\n'
          "        os.sched_setaffinity(0, {rank})\n    print(n)\n")),
    ],
)  # fmt: skip
def test_the_script_s_own_binding_goes(old: str, new: str) -> None:
    assert changed(old, fix.affinity_edits) == new


@pytest.mark.parametrize(
    "text",
    [
        "print(os.sched_getaffinity(0))\n",
        "def worker(rank):\n    os.sched_setaffinity(0, {rank})\n",
        "import psutil\nprint(psutil.Process().cpu_affinity())\n",
        'os.system("nvidia-smi")\n',
    ],
)
def test_other_processes_and_plans_stay(text: str) -> None:
    assert changed(text, fix.affinity_edits) is None
