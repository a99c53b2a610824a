"""Probabilistic datasets: all datasets that one tree or one rule list allows."""
