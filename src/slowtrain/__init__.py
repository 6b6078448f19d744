"""Why is this training step slow, what is each reason worth, and does the cure work?"""

__version__ = "0.1.0"
