"""``python -m slowtrain``: the same as the ``slowtrain`` command."""

import sys

from slowtrain.cli import main

sys.exit(main())
