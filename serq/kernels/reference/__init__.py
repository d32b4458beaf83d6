"""What the device operators compute, written with torch: to check calls by, and to time where torch runs."""
