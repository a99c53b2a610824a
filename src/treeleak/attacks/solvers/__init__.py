"""Integer programs over cells and rows, for CP-SAT."""
