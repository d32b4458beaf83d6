"""Calibration: plan what to measure, measure it, fit the roofline to it, or take over tables of others."""
