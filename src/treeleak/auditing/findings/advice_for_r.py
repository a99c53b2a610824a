"""What to change in models of R: the code that takes fields out, which predict() does not need."""

from __future__ import annotations

from collections.abc import Mapping

_SAME = " Predictions stay the same (predict(m, new)). Then save again: saveRDS(m, file)."
_TAKE_OUT = (
    "First take the model m out of the list l around it (m <- l[[k]]; of caret's train, m <- "
    "l$finalModel): these lines would delete it from the list. "
)
_SAME_INSIDE = (
    " Put it back (l[[k]] <- m). Predictions stay the same. Then save again: saveRDS(l, file)."
)
_ENVIRONMENT = (
    ' A formula may carry an environment with rows: attr(m$terms, ".Environment") <- globalenv().'
)
_PER_ROW: Mapping[str, str] = {
    "ranger": "m$predictions <- m$inbag.counts <- m$confusion.matrix <- NULL "
    "(or train with keep.inbag = FALSE).",
    "randomforest": "m$y <- m$predicted <- m$votes <- m$oob.times <- m$inbag <- m$proximity <- "
    "m$localImportance <- m$err.rate <- m$mse <- m$rsq <- m$confusion <- NULL.",
    "rpart": "m$where <- m$y <- m$x <- m$model <- NULL.",
}
_COUNTS: Mapping[str, str] = {
    "rpart": 'm$frame[, c("wt", "dev", "complexity")] <- 0; m$splits[, c("count", "improve", '
    '"adj")] <- 0; m$cptable <- m$variable.importance <- NULL; of classes also '
    'k <- seq_along(attr(m, "ylevels")); m$frame$yval2[, 1 + k] <- 0; '
    'm$frame$yval2[, "nodeprob"] <- 0; and, if no value to predict from is missing, '
    "m$frame$n <- 0.",
    "randomforest": "m$importance[] <- 0.",
    "ranger": "m$variable.importance <- NULL.",
}
_LARGER: Mapping[str, str] = {
    "ranger": "min.node.size", "randomforest": "nodesize", "rpart": "minbucket",
}  # fmt: skip
_FEWER: Mapping[str, str] = {
    "ranger": "max.depth, num.trees", "randomforest": "maxnodes, ntree", "rpart": "maxdepth",
}  # fmt: skip
_DRAWS = (
    "Do not keep the draws (keep.inbag = FALSE): with them, leaves and out-of-bag predictions are "
    "about rows with known numbers. Delete them: m$inbag.counts <- m$inbag <- NULL."
)


def advice_for_r(key: str, origin: str, inside: bool = False) -> str | None:
    """Give the text of an advice for a model of R; None where the usual one holds.

    ``origin``: as the release says it, the library first. ``inside``: whether the model stands in a
    list.
    """
    library, _, rest = origin.partition(" ")
    library = library.lower()
    if not rest.startswith("(R)") or library not in _PER_ROW:
        return None
    codes = {
        "per_row": ("Delete what has one entry per training row", _PER_ROW.get(library)),
        "rows": ("Delete the training table", f"{_PER_ROW[library]}{_ENVIRONMENT}"),
        "counts": ("Delete numbers that predictions do not need", _COUNTS.get(library)),
    }
    what, code = codes.get(key, ("", None))
    if code is not None:
        before, after = (_TAKE_OUT, _SAME_INSIDE) if inside else ("", _SAME)
        return f"{what}, in R. {before}{code}{after}"
    if key == "leaves":
        return f"Grow larger leaves ({_LARGER[library]} = 10 or more)."
    if key in ("fewer", "trees"):
        return f"Grow fewer and shallower trees ({_FEWER[library]})."
    if key == "seeds":
        return _DRAWS
    if key == "other models":
        return (
            "Remove the fitted models that no attack looked at, or audit each by itself: "
            'saveRDS(l[["name"]], "inner.rds"), and run treeleak audit inner.rds.'
        )
    return None
