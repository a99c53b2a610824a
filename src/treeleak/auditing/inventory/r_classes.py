"""What R's classes of tree models can hold: settings, and what else, by names that R uses."""

from __future__ import annotations

from collections.abc import Mapping

_CALL = "call terms Terms m class na.action formula"
_FOREST = (
    "num.trees child.nodeIDs split.varIDs split.values is.ordered class.values "
    "terminal.class.counts levels independent.variable.names covariate.levels treetype "
    "dependent.varID split.multvarIDs"
)
_RANDOM_FOREST = (
    "type ntree mtry coefs test",
    f"{_CALL} predicted err.rate confusion votes oob.times classes importance importanceSD "
    "localImportance proximity forest y inbag mse rsq "
    "ndbigtree nodestatus bestvar treemap leftDaughter rightDaughter nodepred xbestsplit pid "
    "cutoff ncat maxcat nrnodes nclass xlevels",
)
R_CLASSES: Mapping[str, tuple[str, str]] = {
    "R.ranger": (
        "num.trees num.independent.variables mtry min.node.size splitrule treetype "
        "importance.mode replace num.random.splits max.depth dependent.variable.name status",
        f"{_CALL} predictions prediction.error inbag.counts forest confusion.matrix num.samples "
        "r.squared variable.importance variable.importance.local unique.death.times chf survival",
    ),
    "R.ranger.forest": ("num.trees treetype", _FOREST),
    "R.randomForest": _RANDOM_FOREST,
    "R.randomForest.formula": _RANDOM_FOREST,
    "R.rpart": (
        "method control numresp minsplit minbucket cp maxcompete maxsurrogate usesurrogate "
        "surrogatestyle maxdepth xval",
        f"{_CALL} frame where cptable parms prior loss split functions summary print text splits "
        "csplit variable.importance y x model ordered xlevels ylevels weights",
    ),
    "R.gbm": (
        "bag.fraction interaction.depth n.minobsinnode n.trees train.fraction shrinkage verbose "
        "cv.folds num.classes response.name",
        f"{_CALL} initF fit train.error valid.error oobag.improve trees c.splits distribution "
        "name nTrain var.levels var.monotone var.names var.type data cv.error cv.fitted",
    ),
    "R.constparty": ("names", f"{_CALL} node data fitted info update trafo"),
    "R.simpleparty": ("names", f"{_CALL} node data fitted info update trafo"),
    "R.party": ("names", f"{_CALL} node data fitted info update trafo"),
    "R.BinaryTree": (
        "",
        f"{_CALL} data responses cond_distr_response predict_response prediction_weights get_where "
        "update tree where weights",
    ),
}
"""By type: settings, and what else can stand there, separated by blanks."""
