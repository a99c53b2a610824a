"""The version, read by the build and by every result."""

__version__ = "1.0.0"
