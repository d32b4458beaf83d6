"""What vllm-ascend adds to vLLM's engine: waiting queues, schedulers, and plans across ranks."""
