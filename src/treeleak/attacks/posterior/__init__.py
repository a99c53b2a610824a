"""Attacks that sample: hidden draws, noise, labels of leaves, one missing row."""
