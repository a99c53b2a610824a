"""Audit a file before its release, and refuse the release unless no leak is shown.

    python examples/audit_before_release.py

Trains a forest on bundled data and audits it as a continuous-integration job would.
"""

import tempfile
from pathlib import Path

import skops.io
from sklearn.ensemble import RandomForestClassifier

import treeleak


def main() -> None:
    data = treeleak.datasets.load_german_credit()
    X = data.X.sample(200, random_state=0)
    y = data.y[X.index]
    forest = RandomForestClassifier(random_state=0).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.skops"
        skops.io.dump(forest, file)
        audit = treeleak.audit(file, X, y, schema=data.schema, time_limit=30)
    print(audit.headline)
    for finding in audit.findings:
        print("-", finding.text)
    for part, reason in audit.not_assessed:
        print(f"- {part} not assessed: {reason}")
    released = audit.verdict.startswith("no leak shown")
    print("Release: people decide." if released else "Release: refused.")


if __name__ == "__main__":
    main()
