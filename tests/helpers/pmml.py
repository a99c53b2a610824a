"""PMML as programs write it, from trees of scikit-learn: in the manner of JPMML and of R's pmml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

HEAD = '<?xml version="1.0"?>\n<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4">'


def document(
    model: Any,
    names: Sequence[str],
    classes: Sequence[Any] = (),
    style: str = "jpmml",
    more: str = "",
    kind: str = "double",
    strategy: str = "",
) -> bytes:
    """Write a tree or a forest. ``style``: counts at leaves only, or at all nodes with shares."""
    trees = [t.tree_ for t in model.estimators_] if hasattr(model, "estimators_") else [model.tree_]
    fields = "".join(
        f'<DataField name={quoteattr(n)} optype="continuous" dataType="{kind}"/>' for n in names
    )
    target = "".join(f'<Value value="{c}"/>' for c in classes)
    optype = "categorical" if len(classes) else "continuous"
    schema = "<MiningSchema>" + "".join(f"<MiningField name={quoteattr(n)}/>" for n in names)
    schema += '<MiningField name="y" usageType="target"/></MiningSchema>'
    function = "classification" if len(classes) else "regression"
    written = [
        f'<TreeModel functionName="{function}" {strategy}>{schema}'
        f"{_node(t, 0, '<True/>', names, classes, style)}</TreeModel>"
        for t in trees
    ]
    body = written[0]
    if len(trees) > 1:
        segments = "".join(f'<Segment id="{k}"><True/>{t}</Segment>' for k, t in enumerate(written))
        body = (
            f'<MiningModel functionName="{function}">{schema}'
            f'<Segmentation multipleModelMethod="average">{segments}</Segmentation></MiningModel>'
        )
    return (
        f'{HEAD}<Header><Application name="tests" version="1.0"/></Header>{more}'
        f'<DataDictionary>{fields}<DataField name="y" optype="{optype}" dataType="integer">{target}'
        f"</DataField></DataDictionary>{body}</PMML>"
    ).encode()


def _node(tree: Any, v: int, test: str, names: Any, classes: Any, style: str) -> str:
    leaf = tree.children_left[v] < 0
    weight = tree.weighted_n_node_samples[v]
    attributes, inside = f'id="{v + 1}"', ""
    if leaf or style == "rattle":
        attributes += f' recordCount="{weight:g}"'
        shares = tree.value[v, 0]
        counts = np.round(shares / shares.sum() * weight) if len(classes) else ()
        score = classes[int(np.argmax(counts))] if len(classes) else repr(float(shares[0]))
        attributes += f' score="{score}"'
        for c, count in zip(classes, counts, strict=False):
            share = f' confidence="{float(count / weight)!r}"' if style == "rattle" else ""
            inside += f'<ScoreDistribution value="{c}" recordCount="{count:g}"{share}/>'
    if not leaf:
        field, cut = quoteattr(names[tree.feature[v]]), repr(float(tree.threshold[v]))
        one = f'<SimplePredicate field={field} operator="lessOrEqual" value="{cut}"/>'
        other = "<True/>"
        if style == "rattle":
            other = f'<SimplePredicate field={field} operator="greaterThan" value="{cut}"/>'
        below = zip((tree.children_left[v], tree.children_right[v]), (one, other), strict=True)
        inside += "".join(_node(tree, c, t, names, classes, style) for c, t in below)
    return f"<Node {attributes}>{test}{inside}</Node>"
