"""How steps are fed: pipelines, caches, shuffle buffers, copies to the device."""
