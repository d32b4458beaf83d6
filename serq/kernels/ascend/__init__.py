"""How vllm-ascend lays a batch out on an NPU, and which operators it calls for it."""
