"""Programs whose sessions wait for a slot and KV memory, prefill, decode and leave: a loop of their own."""
