"""The residual uncertainty that a rule list leaves, for different numbers of rows in each rule.

    python examples/rule_list.py

One line per smallest support: how well the rules predict other rows, the residual uncertainty of a
row, on average and at least, and how many rows have the least.
"""

import treeleak
from treeleak.learn import GreedyRuleList

N_ROWS = 200


def main() -> None:
    data = treeleak.datasets.load_compas()
    X = data.X.sample(N_ROWS, random_state=0)
    y = data.y[X.index]
    unseen = data.X.drop(X.index)
    print("support  rules  accuracy  left of a row, of its values, at least  rows so exposed")
    for support in (0.005, 0.02, 0.05, 0.1):
        model = GreedyRuleList(10, min_support=support).fit(X, y)
        left = treeleak.audit(model, X, y, schema=data.schema).uncertainty
        accuracy = model.score(unseen, data.y[unseen.index])
        print(
            f"{support:7}  {len(model.rule_list_.rules):5}  {accuracy:8.1%}  {left.dist_g:13.1%}  "
            f"{left.dist:13.1%}  {left.exposed[0].left:8.1%}  {left.rows_as_exposed:15}"
        )


if __name__ == "__main__":
    main()
