"""What bounds the device: kernels, launches, number formats, rates, batch sizes."""
