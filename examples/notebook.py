"""An audit in a notebook, cell by cell: tables go in, tables come out, the audit shows itself.

    python examples/notebook.py

Each part that begins with "# %%" is a cell in Jupyter, VS Code and the like. As a script, it writes
the page that a notebook would show to a temporary folder.
"""

# %% A model of your own, here on bundled data
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import treeleak
from treeleak.report import render_html

data = treeleak.datasets.load_compas()
X = data.X.sample(150, random_state=0)
y = data.y[X.index]
model = RandomForestClassifier(20, max_depth=4, bootstrap=False, random_state=0).fit(X, y)

# %% The audit; as the last line of a cell, it shows itself
audit = treeleak.audit(model, X, y, schema=data.schema, time_limit=5)
audit  # noqa: B018

# %% How surely rows were recovered
recovered = audit.exposure.recovered
pd.Series({"proved": recovered.proved, "probable": recovered.probable, "open": recovered.open})

# %% The columns that leak most: values right beyond the most common value
columns = audit.exposure.columns
told = (columns["right"] - columns["majority"]).sort_values(ascending=False)
print(told.head(5).to_string(float_format="{:+.1%}".format))

# %% Results by group: errors of each class, and those of a random baseline
print(audit.exposure.groups.to_string(float_format="{:.1%}".format))

# %% The rebuilt rows, as a table like X: for your eyes only
rebuilt = audit.reconstruction.X
print(f"{treeleak.metrics.exact_row_share(rebuilt, X):.0%} of the rows are right.")
print(audit.headline)

# %% The page for the people who decide, without rows
with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "report.html"
    page.write_text(render_html(audit), encoding="utf-8")
    print(f"{page.name}: {page.stat().st_size:,} bytes; in a notebook {len(audit._repr_html_()):,}")
