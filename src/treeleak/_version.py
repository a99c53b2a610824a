"""The version, read by the build and by every result."""

__version__ = "0.9.0"
