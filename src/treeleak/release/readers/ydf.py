"""Models of Yggdrasil decision forests (YDF, TensorFlow Decision Forests): a few files together.

``header.pb``, ``data_spec.pb`` and the header of the kind of model are messages of Protocol
Buffers; the nodes of all trees stand in ``nodes-*``, each a message of its own, a parent right
before its negative child, and that with all below it before the positive one. The files of one
model may begin with a common prefix.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treeleak.core.errors import BadModel
from treeleak.release.bounds import MOST_TREES, at_most
from treeleak.release.readers.protobuf import Messages, as_columns, names_in, tables_of
from treeleak.release.registry import describe_format, reader_of_files
from treeleak.release.stored import Leftover, StoredObject

MOST_BYTES, MOST_HEADER = 2**28, 2**25
"""Of a file of nodes, unpacked, and of any other file: some 10 microseconds for each field."""
MOST_NODES, MOST_IN_TREE = 2**23, 2**20
MOST_MEMBERS = 2**26
"""Categories in all tests for them."""
MOST_AHEAD = 30
"""Rounds for which training goes on in vain, unless someone changes it; the log has these, too."""
_ROUNDING = 1e-5
_ROLES = ("label_col_idx", "ranking_group_col_idx", "uplift_treatment_col_idx",
          "label_entry_age_col_idx", "label_event_observed_col_idx")  # fmt: skip
_IMPORTANCE = re.compile(
    r"NUM_NODES|NUM_AS_ROOT|SUM_SCORE|(INV_)?MEAN_MIN_DEPTH|MEAN_DECREASE_IN_ACCURACY|"
    r"MEAN_INCREASE_IN_RMSE|MEAN_DECREASE_IN_(AP|AUC|PRAUC)_(?P<of>.{1,128})_VS_OTHERS"
)
"""Names of lists of importances, some for each class."""
MARK = "data_spec.pb"
HEADERS = {"RandomForestHeader": "random_forest_header.pb",
           "GradientBoostedTreesHeader": "gradient_boosted_trees_header.pb"}  # fmt: skip
_NODES = re.compile(r"nodes-\d{5}-of-\d{5}")
_TABLES = tables_of("""
AbstractModel: 1 name s, 2 task i, 3 label_col_idx i, 4 weights LinkedWeightDefinition, 5 input_features i*, 6 ranking_group_col_idx i, 7 precomputed_variable_importances VariableImportances*, 8 classification_outputs_probabilities b, 9 uplift_treatment_col_idx i, 10 metadata Metadata, 12 is_pure_model b, 14 label_entry_age_col_idx i, 15 label_event_observed_col_idx i
LinkedWeightDefinition: 1 attribute_idx i, 2 numerical e, 3 categorical CategoricalWeight
CategoricalWeight: 1 categorical_value_idx_2_weight f*
VariableImportances: 1 key s, 2 value <VariableImportanceSet
VariableImportanceSet: 1 variable_importances VariableImportance@
VariableImportance: 1 attribute_idx i, 2 importance d
Metadata: 1 owner s, 2 created_date i, 3 uid i, 4 framework s
DataSpecification: 1 columns Column*, 2 created_num_rows i, 3 unstackeds Unstacked@
Unstacked: 1 original_name s, 2 begin_column_idx i, 3 size i, 4 type i
Column: 1 type i, 2 name s, 3 is_manual_type b, 4 tokenizer <Tokenizer, 5 numerical <NumericalSpec, 6 categorical <CategoricalSpec, 7 count_nas i, 8 discretized_numerical <DiscretizedNumericalSpec, 9 boolean <BooleanSpec, 10 multi_values <MultiValuesSpec, 11 is_unstacked b, 12 dtype i
Tokenizer: 1 splitter i, 2 separator s, 3 regex s, 4 to_lower_case b, 5 grouping <Grouping
Grouping: 1 unigrams b, 2 bigrams b, 3 trigrams b
NumericalSpec: 1 mean d, 2 min_value f, 3 max_value f, 4 standard_deviation d
CategoricalSpec: 1 most_frequent_value i, 2 number_of_unique_values i, 3 min_value_count i, 4 max_number_of_unique_values i, 5 is_already_integerized b, 7 items Item@, 8 offset_value_by_one_during_training b
Item: 1 key s, 2 value <VocabValue
VocabValue: 1 index i, 2 count i
DiscretizedNumericalSpec: 1 boundaries f*, 2 original_num_unique_values i, 3 maximum_num_bins i, 4 min_obs_in_bins i
BooleanSpec: 1 count_true i, 2 count_false i
MultiValuesSpec: 1 max_observed_size i, 2 min_observed_size i
RandomForestHeader: 1 num_node_shards i, 2 num_trees i, 3 winner_take_all_inference b, 4 out_of_bag_evaluations OutOfBag*, 5 mean_decrease_in_accuracy VariableImportance@, 6 mean_increase_in_rmse VariableImportance@, 7 node_format s, 8 num_pruned_nodes i
OutOfBag: 1 number_of_trees i, 2 evaluation <EvaluationResults
EvaluationResults: 1 count_predictions d, 2 count_predictions_no_weight i, 3 sampled_predictions Prediction@, 4 count_sampled_predictions d, 5 task i, 6 classification <Classification, 7 regression <Regression, 8 label_column Column, 9 training_duration_in_seconds f, 10 loss_value f, 11 loss_name s, 13 num_folds i
Prediction: 1 classification <PredictedClass, 2 regression <PredictedTarget, 3 weight f, 4 example_key s
PredictedClass: 1 value i, 2 distribution <FloatDistribution, 3 ground_truth i, 4 logits <FloatDistribution
PredictedTarget: 1 value f, 2 ground_truth f
FloatDistribution: 1 counts f*, 2 sum f
Classification: 1 confusion <Confusion, 2 rocs Roc*, 3 sum_log_loss d, 5 accuracy d
Confusion: 1 counts d*, 2 sum d, 3 nrow i, 4 ncol i
Regression: 1 sum_square_error d, 2 sum_label d, 3 sum_square_label d, 4 bootstrap_rmse_lower_bounds_95p d, 5 bootstrap_rmse_upper_bounds_95p d, 6 sum_abs_error d
Roc: 1 curve Point@, 2 count_predictions d, 3 auc d, 4 pr_auc d, 10 ap d
Point: 1 threshold f, 2 tp d, 3 fp d, 4 tn d, 5 fn d
GradientBoostedTreesHeader: 1 num_node_shards i, 2 num_trees i, 3 loss i, 4 initial_predictions f*, 5 num_trees_per_iter i, 6 validation_loss f, 7 node_format s, 8 training_logs <TrainingLogs, 9 output_logits b, 10 loss_configuration <LossConfiguration
TrainingLogs: 1 entries Entry@, 2 secondary_metric_names s*, 3 number_of_trees_in_final_model i
Entry: 1 number_of_trees i, 2 training_loss f, 3 training_secondary_metrics f*, 4 validation_loss f, 5 validation_secondary_metrics f*, 6 mean_abs_prediction d, 7 subsample_factor f, 8 validation_confusion_matrix <Confusion, 9 time f
LossConfiguration: 3 binary_focal_loss_options <Focal, 4 multinomial_loss <Multinomial
Focal: 1 misprediction_exponent f, 2 positive_sample_coefficient f
Multinomial: 1 initialize_with_class_priors b
Node: 1 classifier <NodeClassifierOutput, 2 regressor <NodeRegressorOutput, 3 condition <NodeCondition, 4 num_pos_training_examples_without_weight i, 6 anomaly_detection <Anomaly
NodeClassifierOutput: 1 top_value i, 2 distribution <IntegerDistribution
IntegerDistribution: 1 counts d*, 2 sum d
NodeRegressorOutput: 1 top_value f, 2 distribution <NormalDistribution, 3 sum_gradients d, 4 sum_hessians d, 5 sum_weights d
NormalDistribution: 1 sum d, 2 sum_squares d, 3 count d
Anomaly: 1 num_examples_without_weight i
NodeCondition: 1 na_value b, 2 attribute i, 3 condition <Condition, 4 num_training_examples_without_weight i, 5 num_training_examples_with_weight d, 6 split_score f, 7 num_pos_training_examples_without_weight i, 8 num_pos_training_examples_with_weight d
Condition: 1 na_condition e, 2 higher_condition <Higher, 3 true_value_condition e, 4 contains_condition <ContainsVector, 5 contains_bitmap_condition <ContainsBitmap, 6 discretized_higher_condition <DiscretizedHigher, 7 oblique_condition <Oblique
Higher: 1 threshold f
DiscretizedHigher: 1 threshold i
ContainsVector: 1 elements i*
ContainsBitmap: 1 elements_bitmap y
Oblique: 1 attributes i*, 2 weights f*, 3 threshold f, 4 na_replacements f*
""")  # noqa: E501
"""Fields of the messages, by the names of the library's own definitions."""

_TEST = "condition.condition."
_SETS = f"{_TEST}contains_condition.elements"
_BITMAP = f"{_TEST}contains_bitmap_condition.elements_bitmap"
_RAGGED = (_SETS, *(f"{_TEST}oblique_condition.{k}" for k in ("attributes", "weights",
                                                              "na_replacements")))  # fmt: skip
PARTS: Mapping[str, str] = {
    **{f"ydf.{message}": " ".join(names_in(message, _TABLES)) for message in _TABLES},
    "ydf.Model": "header data_spec trees " + " ".join(n.removesuffix(".pb") for n in
                                                      HEADERS.values()),
    "ydf.Tree": " ".join((*names_in("Node", _TABLES), *(f"{name}.at" for name in _RAGGED))),
}  # fmt: skip
"""What objects of these files can hold, by type, separated by blanks."""


describe_format(
    "Yggdrasil (YDF, TF-DF)",
    f"a folder with {MARK}",
    "rows of each class in each node, sums of gradients, ends and categories of all columns",
)


@reader_of_files(MARK, "|".join((MARK, "header.pb", "done", _NODES.pattern, *HEADERS.values())))
def read_ydf(files: Mapping[str, Path]) -> StoredObject:
    """Read the files of one model, by their names without the common prefix.

    Raises
    ------
    BadModel
        Naming the file that is missing or damaged.
    """
    kind = next((kind for kind, name in HEADERS.items() if name in files), None)
    if kind is None or "header.pb" not in files:
        missing = "header.pb" if kind else " or ".join(HEADERS.values())
        raise BadModel(
            f"{MARK} is there, and {missing} is not: copy the whole folder (of YDF's models, "
            "forests, single and boosted trees are read)"
        )
    messages = Messages("ydf", _TABLES)
    state: dict[str, Any] = {}
    for message, name in (
        ("AbstractModel", "header.pb"), ("DataSpecification", MARK), (kind, HEADERS[kind])
    ):  # fmt: skip
        read = messages.read(message, _bytes(files[name], name, MOST_HEADER), name)
        state[name.removesuffix(".pb")] = StoredObject(f"ydf.{message}", read)
    header, where = state[HEADERS[kind].removesuffix(".pb")], HEADERS[kind]
    nodes = sorted(name for name in files if _NODES.fullmatch(name))
    n_trees, n_files = header.get("num_trees", 0), header.get("num_node_shards", 0)
    if n_files != len(nodes):
        raise BadModel(f"{where}: num_node_shards is {n_files}, and there are {len(nodes)}")
    at_most(MOST_TREES, n_trees, "trees (num_trees)")
    form = header.get("node_format", "TFE_RECORDIO")
    records = (
        (name, record) for name in nodes for record in _records(files[name], name, form, messages)
    )
    state["trees"] = list(_trees(records, messages))
    if len(state["trees"]) != n_trees:
        raise BadModel(f"{where}: num_trees is {n_trees}, and there are {len(state['trees'])}")
    for name in sorted(files.keys() - {"header.pb", MARK, HEADERS[kind], *nodes}):
        if content := _bytes(files[name], name, MOST_HEADER):
            messages.keep(name, "what the file holds", content)
    left = tuple(Leftover(where, what, held) for where, what, held in unaccounted(state))
    return StoredObject("ydf.Model", state, leftovers=(*messages.leftovers, *left))


def unaccounted(state: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """List parts of headers that no tree, column or round of the model stands for.

    Each with its place, and what it is.
    """
    model, spec = state["header"], state["data_spec"]
    kind = next(kind for kind, name in HEADERS.items() if name.removesuffix(".pb") in state)
    header, columns = state[HEADERS[kind].removesuffix(".pb")], spec.get("columns", [])
    used = {model.get(key, -1) for key in _ROLES} | {*model.get("input_features", [])}
    used |= {weights.get("attribute_idx", -1)} if (weights := model.get("weights")) else set()
    if odd := [c.state for k, c in enumerate(columns) if k not in used or not _is_possible(c)]:
        yield "data_spec.pb", "columns that the model does not use, or that cannot be", odd
    known = used & {*range(len(columns))}
    sets = [(held.get("key", ""), held.get("value.variable_importances"))
            for held in model.get("precomputed_variable_importances", [])]  # fmt: skip
    once = len({key for key, _ in sets}) == len(sets)
    label = columns[at] if 0 <= (at := model.get("label_col_idx", -1)) < len(columns) else None
    items = None if label is None else label.get("categorical.items")
    classes = {None} | ({*items.get("key", ())} if items is not None else set())
    sets += [("NUM_NODES", header.get(f"mean_{key}")) for key in ("decrease_in_accuracy",
                                                                  "increase_in_rmse")]  # fmt: skip
    for key, held in sets:
        listed = () if held is None else held.get("attribute_idx", ())
        named = _IMPORTANCE.fullmatch(key)
        if not (once and named and named["of"] in classes and {*listed} <= known):
            yield "header.pb", "importances that the library does not compute", [key, held]
    trees, last = header.get("num_trees", 0), 0
    for one in header.get("out_of_bag_evaluations", []):
        n, said = one.get("number_of_trees", 0), one.get("evaluation.label_column")
        same = said is None or (label is not None and _said_of(said) == _said_of(label))
        if not last < n <= trees or not same or not _adds_up(one):
            yield HEADERS[kind], "scores of no number of trees", one.state
        last = n
    rounds = trees // max(header.get("num_trees_per_iter", 1), 1)
    entries = header.get("training_logs.entries")
    logged = [] if entries is None else entries.get("number_of_trees", [])
    if len(logged) and max(logged) > rounds + MOST_AHEAD:
        yield HEADERS[kind], "scores of rounds that there were not", entries.state


def _is_possible(column: StoredObject) -> bool:
    """Say whether what a column says of its values can be true of numbers."""
    keys = ("min_value", "mean", "max_value", "standard_deviation")
    low, mean, high, spread = (column.get(f"numerical.{key}", 0.0) for key in keys)
    off = _ROUNDING * max(abs(low), abs(high))
    beyond = mean < low - off or mean > high + off or spread < 0
    return not (beyond or 2 * spread > high - low + 2 * off)


def _adds_up(evaluation: StoredObject) -> bool:
    """Say whether a confusion matrix counts whole rows, as many as were evaluated."""
    prefix = "evaluation.classification.confusion."
    counts = np.array(evaluation.get(f"{prefix}counts", []), dtype=float)
    total = evaluation.get("evaluation.count_predictions", 0.0)
    return not counts.size or (bool((counts >= 0).all()) and abs(counts.sum() - total) <= (
        _ROUNDING * max(total, 1.0)))  # fmt: skip


def _said_of(column: StoredObject) -> tuple[dict[str, Any], list[Any]]:
    """Give what a column says, and its categories, which stand in any order."""
    rest = {k: v for k, v in column.state.items() if not isinstance(v, StoredObject)}
    items = column.get("categorical.items")
    lists = [] if items is None else [items.get(key, []) for key in sorted(items.state)]
    return rest, sorted(map(str, zip(*lists, strict=True)))


def _bytes(path: Path, name: str, most: int = MOST_BYTES) -> bytes:
    if path.stat().st_size > most:
        raise BadModel(f"{name}: larger than {most >> 20} MiB: not read")
    return path.read_bytes()


def _trees(records: Iterator[tuple[str, bytes]], messages: Messages) -> Iterator[StoredObject]:
    """Put nodes together to trees: each test asks for two more nodes, each leaf for none."""
    nodes: list[dict[str, Any]] = []
    waiting, members = 1, 0
    for total, (name, record) in enumerate(records):
        node = messages.read("Node", record, name)
        if (bitmap := node.pop(_BITMAP, None)) is not None:
            at_most(MOST_MEMBERS, members + 8 * len(bitmap), "categories in tests for them")
            bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
            node[_SETS] = np.flatnonzero(bits)
        inner = "condition.attribute" in node
        nodes.append(node)
        members += len(node.get(_SETS, ()))
        at_most(MOST_MEMBERS, members, "categories in tests for them")
        at_most(MOST_IN_TREE, len(nodes), "nodes in a tree")
        waiting += 1 if inner else -1
        at_most(MOST_NODES, total + 1, "nodes in all trees")
        if waiting == 0:
            yield StoredObject("ydf.Tree", as_columns(nodes, name, _RAGGED))
            nodes, waiting = [], 1
    if nodes:
        raise BadModel(f"the last tree lacks {waiting} nodes: the files of nodes are cut short")


# -------------------------------------------------------------------------- files of records


def _records(path: Path, name: str, form: str, messages: Messages) -> Iterator[bytes]:
    """List the records of a file: a blob sequence, packed or not, or records of TensorFlow."""
    data = _bytes(path, name)
    if form == "TFE_RECORDIO":
        yield from _tf_records(data, name)
        return
    if not form.startswith("BLOB_SEQUENCE") or len(data) < 8 or data[:2] != b"BS":
        raise BadModel(f"{name}: no blob sequence (node_format {form!r:.40})")
    version, packed = int.from_bytes(data[2:4], "little"), data[4]
    if version > 1 or packed > 1 or (version == 0 and packed):
        raise BadModel(f"{name}: a blob sequence of version {version} that is not known")
    if any(data[5:8]):
        messages.keep(name, "reserved bytes", data[5:8])
    data = _unpacked(data[8:], name, messages) if packed else data[8:]
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data):
            raise BadModel(f"{name}: the record at byte {at} is cut short")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _unpacked(data: bytes, name: str, messages: Messages) -> bytes:
    """Unpack gzip, within bounds; what stands before and behind the packed bytes is left over."""
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        out = unpacking.decompress(data, MOST_BYTES)
    except zlib.error as error:
        raise BadModel(f"{name}: damaged ({error})") from error
    if not unpacking.eof:
        raise BadModel(f"{name}: cut short, or more than {MOST_BYTES >> 20} MiB unpacked")
    if any(data[3:8]):
        # A time, a name or a comment: the library writes none.
        messages.keep(name, "head of the packed bytes", data[:512])
    if unpacking.unused_data:
        messages.keep(name, "behind the packed bytes", unpacking.unused_data)
    return out


def _tf_records(data: bytes, name: str) -> Iterator[bytes]:
    """List records of TensorFlow: a length, the record, and a checksum of each."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        end = at + 12 + size
        if end + 4 > len(data):
            raise BadModel(f"{name}: the record at byte {at} is cut short")
        for start, stop in ((at, at + 8), (at + 12, end)):
            if _crc(data[start:stop]) != int.from_bytes(data[stop : stop + 4], "little"):
                raise BadModel(f"{name}: a wrong checksum at byte {stop}: copy it again")
        yield data[at + 12 : end]
        at = end + 4


def _crc_table() -> tuple[int, ...]:
    table = list(range(256))
    for _ in range(8):
        table = [(x >> 1) ^ (0x82F63B78 if x & 1 else 0) for x in table]
    return tuple(table)


_CRC = _crc_table()


def _crc(data: bytes) -> int:
    """Compute CRC-32C, turned and shifted as TensorFlow does."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 255] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
