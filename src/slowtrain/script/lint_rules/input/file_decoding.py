"""Lint rule about files that Python reads and decodes sequentially in the training process."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules.input import slow_python
from slowtrain.script.navigation import node_lookup
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source

# Each takes 1 ms or more for a typical training file.
DECODING_FUNCTIONS = frozenset(
    "cv2.imread cv2.imdecode PIL.Image.open keras.utils.load_img keras.preprocessing.image.load_img imageio.imread "
    "imageio.v2.imread imageio.v3.imread skimage.io.imread matplotlib.pyplot.imread matplotlib.image.imread "
    "librosa.load soundfile.read scipy.io.wavfile.read pydicom.dcmread nibabel.load tifffile.imread "
    "rasterio.open".split()
)
# A file may hold many samples. Only a sequence that opens several files per batch has one file per sample.
LOADING_FUNCTIONS = frozenset({"numpy.load", "numpy.loadtxt", "numpy.genfromtxt"})
_LIBRARIES = frozenset(
    "cv2 PIL load_img imageio skimage imread librosa soundfile wavfile pydicom nibabel tifffile rasterio load loadtxt "
    "genfromtxt".split()
)
MIN_FILES_PER_BATCH = 4  # files per batch
WORKERS_ADVICE = "give it workers (workers=4, use_multiprocessing=True), or decode in a parallel map of tf.data"


def sequential_decoding(source: Source) -> Iterator[slow_python.SlowPart]:
    """Find the first such call of each input function, unless there are workers or a cache."""
    if source.words.isdisjoint(_LIBRARIES) or "workers" in source.text or ".cache(" in source.text:
        return
    seen: set[ast.AST | None] = set()
    for event in file_events(source):
        loads = (
            event.name in LOADING_FUNCTIONS and event.producer == "sequence" and "mmap_mode" not in event.given.keywords
        )
        if not loads and (event.name not in DECODING_FUNCTIONS or event.producer not in ("sequence", "generator")):
            continue
        inner, function = event.loops[-1] if event.loops else None, node_lookup.enclosing_function(source, event.node)
        own = inner is not None and not isinstance(inner.node, ast.Call)
        if inner is None or not own or (inner.turns or MIN_FILES_PER_BATCH) < MIN_FILES_PER_BATCH or function in seen:
            continue
        seen.add(function)
        says = "Python decodes one file after the other here, in the process that trains"
        yield slow_python.SlowPart(edits.node_start(event.node), edits.node_end(event.node), says, None, WORKERS_ADVICE)
