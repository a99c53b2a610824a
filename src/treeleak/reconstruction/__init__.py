"""From a model to rows: the main road, and its result."""

from treeleak.reconstruction.document import as_json, versions, written
from treeleak.reconstruction.result import RECONSTRUCTION_VERSION, Reconstruction, Space

__all__ = ["RECONSTRUCTION_VERSION", "Reconstruction", "Space", "as_json", "versions", "written"]
