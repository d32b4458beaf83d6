"""What one engine step costs: batches, their layout on a device, executors."""
