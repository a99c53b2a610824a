"""scikit-learn's tree models, from stored data to a release.

What the numbers in a node mean, found out from the sources and checked against files written by
the versions named (``tests/models``):

- ``n_node_samples`` counts the rows of positive weight that reach the node. A bootstrap is a
  weight (the number of draws), so in a bootstrapped forest these are *distinct* rows.
- ``weighted_n_node_samples`` sums the weights: draws in a plain bootstrapped forest.
- ``value`` holds sums of weights per class before 1.4, fractions of the node's weight since.
- Class and sample weights of a bootstrapped forest multiply the draws before 1.9; since, they
  set each row's probability of being drawn and the draws are whole numbers again (bagging: since
  1.8). ``class_weight="balanced_subsample"`` multiplies the draws in every version.
- ``missing_go_to_left``: where a node saw no missing value in the column it tests, missing
  values go to the child with more distinct rows, right if equal (splitter ``best``; ``random``
  since 1.6, which before saw no missing values at all). A node that breaks this rule, or an
  infinite threshold (missing against the rest), has seen missing values.
- Before 1.9 a node that splits on a column with missing values may send other rows to its
  children in training than it does afterwards (scikit-learn's pull request 32351), and its
  threshold may be NaN: the counts below are counts of something, but not of the splits. So trees
  end there, and :attr:`Release.left_out` says so.
- Before 1.3 no tree took missing values, and nodes do not say where they would go.
- ``class_weight="balanced"`` weighs a class by N / (n_classes n_c): the number of draws, which no
  forest stores before 1.4, follows from the roots.
"""

from treeleak.release.adapters.sklearn import (  # noqa: F401
    boosting,
    containers,
    ensembles,
    histogram,
)
from treeleak.release.adapters.sklearn.attributes import (
    class_labels,
    feature_names,
    fitted,
    main_model,
)
from treeleak.release.adapters.sklearn.nodes import tree_and_values

__all__ = ["class_labels", "feature_names", "fitted", "main_model", "tree_and_values"]
