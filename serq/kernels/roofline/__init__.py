"""The roofline executor: what a model's arithmetic and memory traffic take on a device."""
