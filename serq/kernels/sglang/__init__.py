"""How SGLang lays a batch out on an NPU."""
