"""From a recording to lines of the script."""
