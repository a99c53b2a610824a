"""What larger leaves save: the same rows in default forests with different smallest leaves.

    python examples/compare_settings.py

One line per setting: how well the model predicts other rows, and how many of its training rows an
attack rebuilds, each in its own place.
"""

from sklearn.ensemble import RandomForestClassifier

import treeleak

N_ROWS = 100


def main() -> None:
    data = treeleak.datasets.load_compas()
    X = data.X.sample(N_ROWS, random_state=0)
    y = data.y[X.index]
    unseen = data.X.drop(X.index)
    guess = treeleak.metrics.random_baseline(X, data.schema)
    print("smallest leaf  accuracy  status    rows right in place  error")
    for leaf in (1, 5, 10, 20):
        forest = RandomForestClassifier(min_samples_leaf=leaf, random_state=0).fit(X, y)
        result = treeleak.reconstruct(forest, data.schema, time_limit=5)
        right = (result.X.to_numpy() == X.to_numpy()).all(axis=1).mean()
        error = treeleak.metrics.reconstruction_error(result.X, X, data.schema)
        accuracy = forest.score(unseen, data.y[unseen.index])
        print(f"{leaf:13}  {accuracy:8.1%}  {result.status:8}  {right:19.0%}  {error:12.1%}")
    print(f"{'random baseline':>56}  {guess.mean:12.1%}")


if __name__ == "__main__":
    main()
