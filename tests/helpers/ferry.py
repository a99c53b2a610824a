"""The examples of Ferry 2024: the tree of figure 1, the rows of tables I and IV."""

import numpy as np
import pandas as pd

from treeleak.release import AllRows, Release
from treeleak.schema import Binary, Ordinal, Schema

from .releases import tree_of

TOY_SCHEMA = Schema([Ordinal("a1", 10, 15), Binary("a2"), Ordinal("a3", 1, 3)])
TOY_X = pd.DataFrame({"a1": [12, 14, 11, 14], "a2": [0, 1, 1, 0], "a3": [3, 2, 2, 1]})
TOY_Y = [0, 0, 1, 1]
_COUNTS = np.array([[2.0, 2], [0, 1], [2, 1], [0, 1], [2, 0]])
_TREE = tree_of((2, 1.5), None, (0, 11.5), None, None).with_counts(counts=_COUNTS)
TOY = Release((_TREE,), ("a1", "a2", "a3"), (0, 1), AllRows(), 4)

LIST_X = pd.DataFrame(
    [[1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 0, 0]], columns=["a1", "a2", "a3"]
)
