"""How a device's memory is divided: weights, working room, and what is left for the KV cache."""
