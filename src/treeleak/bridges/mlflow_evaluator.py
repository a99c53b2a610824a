"""treeleak as an evaluator of MLflow, which finds it by its entry point.

It runs where ``evaluator_config`` has settings for it, and nowhere else: MLflow would otherwise
audit every model that is evaluated wherever treeleak is installed. What it logs is the releasable
edition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from treeleak.auditing import Audit, audit, judge, read_policy
from treeleak.auditing.findings.finding import NO_LEAK
from treeleak.auditing.policy import Policy
from treeleak.bridges.sacro_report import global_metrics
from treeleak.core.errors import BadInput
from treeleak.core.text import unknown_keys

try:
    from mlflow import MlflowClient
    from mlflow.models.evaluation import EvaluationResult, ModelEvaluator
    from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact
except ImportError:
    MlflowClient, ModelEvaluator = None, object

NAME = "treeleak"
SETTINGS = ("train", "schema", "policy", "time_limit", "seed", "n_rows")
"""Training rows with their target column; a schema and a policy, or their files; and numbers."""
AUDIT, REPORT = "treeleak_audit.json", "treeleak_report.html"


class TreeleakEvaluator(ModelEvaluator):  # type: ignore[misc]
    """Audits a model that MLflow evaluates.

    The data that MLflow evaluates on are the control rows: rows that the model was not trained on.
    They need the training rows beside them (``evaluator_config={"train": table, ...}``).
    """

    def __init__(self) -> None:
        if MlflowClient is None:
            raise BadInput("MLflow is not installed: python -m pip install 'treeleak[mlflow]'")

    @classmethod
    def can_evaluate(cls, *, evaluator_config: Mapping[str, Any] | None = None, **_: Any) -> bool:
        """Say whether the evaluation was given settings of treeleak."""
        return any(key in SETTINGS for key in evaluator_config or ())

    def evaluate(
        self,
        *,
        dataset: Any,
        run_id: str,
        evaluator_config: Mapping[str, Any],
        model: Any = None,
        **_: Any,
    ) -> Any:
        """Audit a model, and log figures, document and report.

        Raises
        ------
        BadInput
            If there is no model object, or a setting is unknown.
        """
        result = _audited(model, dataset, dict(evaluator_config))
        metrics = metrics_of(result)
        client = MlflowClient()
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        client.log_text(run_id, result.to_html(), REPORT)
        client.log_text(run_id, result.to_json(), AUDIT)
        uri = f"{client.get_run(run_id).info.artifact_uri}/{AUDIT}"
        document = JsonEvaluationArtifact(uri=uri, content=result.to_dict())
        return EvaluationResult(metrics, {AUDIT: document}, run_id=run_id)


def metrics_of(result: Audit) -> dict[str, float]:
    """Give figures as numbers; ``no_leak_shown`` and ``passed``, a policy, are 1 or 0."""
    figures = global_metrics(result.document()) | {"no_leak_shown": result.verdict == NO_LEAK}
    numbers = {k: float(v) for k, v in figures.items() if isinstance(v, (int, float))}
    return {f"{NAME}/{key}": value for key, value in numbers.items()}


def _audited(model: Any, dataset: Any, settings: dict[str, Any]) -> Audit:
    if unknown := set(settings) - set(SETTINGS):
        raise BadInput(f"evaluator_config: {unknown_keys(unknown, SETTINGS)}")
    try:
        tree_model = model.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise BadInput(
            "MLflow gives no model object here: audit the model's folder with treeleak audit"
        ) from error
    policy = settings.pop("policy", None)
    if policy is not None:
        policy = policy if isinstance(policy, Policy) else read_policy(policy)
        settings["threshold"] = policy.threshold
    rows, labels = settings.pop("train", None), None
    if rows is not None:
        if dataset.targets_name in rows:
            labels, rows = rows[dataset.targets_name], rows.drop(columns=dataset.targets_name)
        settings |= {"control": dataset.features_data, "control_y": dataset.labels_data}
    result = audit(tree_model, rows, labels, **settings)
    return result if policy is None else replace(result, ruling=judge(result, policy))
