"""Questions that causes ask about a trace: input, memory, trends of the steps; packages for device, host and drift."""
