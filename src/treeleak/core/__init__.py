"""Tools for every room: time, files, plain text, classes that show no value. Knows no model."""
