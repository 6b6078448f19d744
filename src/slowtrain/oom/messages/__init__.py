"""Messages of allocators, frameworks and the kernel about memory."""
