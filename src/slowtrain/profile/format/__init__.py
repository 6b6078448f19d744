"""The file format of profiles: wire format, planes, lines, events, statistics, XLA programs."""
