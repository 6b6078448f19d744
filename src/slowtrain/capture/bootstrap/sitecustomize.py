"""Found on PYTHONPATH by the interpreter that runs the user's script, before the script starts.

Starting the script as ``python script.py`` and coming in by this door keeps everything as it
would be without us: ``__main__``, ``sys.argv``, ``sys.path[0]``, pickling, ``multiprocessing``.
"""

import os
import sys


def _begin() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != here]
    kept = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and os.path.abspath(p) != here]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401  the one that this file stood in front of, if there is any
    except ImportError:
        sys.modules["sitecustomize"] = ours
    folder = os.environ.pop("SLOWTRAIN_RECORDING", None)
    if folder:
        from slowtrain.capture import child

        child.begin(folder)


_begin()
