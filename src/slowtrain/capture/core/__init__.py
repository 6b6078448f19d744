"""The recorder: rows of spans, the fast path in C, the state of threads, patching, the line tracer and readbacks."""
