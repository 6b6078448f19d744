# What type checkers see of the names that are only imported when they are asked for.
from slowtrain.monitor import Monitor as Monitor
from slowtrain.monitor import record as record

__version__: str
