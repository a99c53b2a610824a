"""The residual uncertainty that a rule list leaves, for different numbers of rules.

    python examples/rule_list.py

One line per list: how well the rules predict other rows, the residual uncertainty of a row, on
average and at least, and how many rows have the least.
"""

import treeleak
from treeleak.release import Condition, DecisionRule, RuleList

N_ROWS = 200
ASKED = ("priors:>3", "juvenile-crimes:>0", "age:18-20", "priors:=0", "sex:Male")
"""The first rule says 1 if the first column is 1, and so on; the fourth says 0."""


def main() -> None:
    data = treeleak.datasets.load_compas()
    X = data.X.sample(N_ROWS, random_state=0)
    y = data.y[X.index]
    unseen = data.X.drop(X.index)
    rules = [DecisionRule((Condition(c, (1,)),), int(c != "priors:=0")) for c in ASKED]
    print("rules  accuracy  left of a row, of its values, at least  rows so exposed")
    for n in range(1, len(rules) + 1):
        default = DecisionRule((), 0)
        listed = RuleList(tuple(X.columns), (0, 1), tuple(rules[:n]), default).counted(X, list(y))
        left = treeleak.audit(listed, X, y, schema=data.schema).uncertainty
        accuracy = (listed.predict(unseen) == data.y[unseen.index]).mean()
        print(
            f"{n:5}  {accuracy:8.1%}  {left.dist_g:13.1%}  {left.dist:13.1%}  "
            f"{left.exposed[0].left:8.1%}  {left.rows_as_exposed:15}"
        )


if __name__ == "__main__":
    main()
