"""The results version: which stored runs still say what treeleak answers today.

A stored run counts as done as long as its version is that of its experiment. Files may move, and
code may change in any way: only a line in ``CHANGES`` makes runs due again. Add one whenever an
attack, a metric or a study answers otherwise than before, and say there which answers change and
why. Speed alone is no answer, except where a study shows it or a time limit ends its runs.

Versions are one series of numbers, but a line may name the experiments that it concerns. All
stored runs together take many hours, most of them for one experiment: whoever improves the attack
on noise should neither have to repeat Ferry's trees nor be tempted to leave the version alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

VERSION = "results_version"
"""Name of the version among the figures of a run."""
EVERY: tuple[str, ...] = ()
"""Stands for every experiment, where a line names none."""

CHANGES: Mapping[int, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        # Version: the studies (``Study.kept_as``) and benchmarks concerned, which answers change,
        # and why.
        1: (EVERY, "The first version, which the runs behind docs/reproduction.md are of."),
        2: (
            ("known_raw",),
            "Raw numbers behind known draws: leaves of large forests are narrowed by boxes, rows "
            "walk on inside what follows from an attempt, and rows left open are counted.",
        ),
        3: (("boosted",), "Rows and targets of regression follow from sums of targets."),
        4: (
            ("exact",),
            "Worlds behind exact counts are drawn by shorter runs where these meet all counts. "
            "Errors are the same but for chance: studies of exact counts keep their runs.",
        ),
        5: (
            ("boosted",),
            "Rows of GradientBoosting come back tree by tree; classes that sums told stay with "
            "their cells.",
        ),
        6: (
            ("exact",),
            "Where exact counts leave several datasets, chains learn what rows are like: most "
            "shallow forests err less. Stored studies of exact counts err more until run again.",
        ),
        7: (
            ("exact",),
            "Where exact counts leave several datasets, rows between them are the answer if they "
            "are expected to err less. Stored studies of exact counts err more until run again.",
        ),
        8: (
            ("raw", "known_raw", "raw_boosted"),
            "A column with a single threshold and no bounds has values of the threshold's size.",
        ),
        9: (
            ("exact",),
            "Beside rows between datasets, one dataset is looked for, and not ten: it comes sooner "
            "and may be another one. Errors are the same.",
        ),
        10: (
            ("raw", "raw_boosted"),
            "Columns whose distinct values all follow from borders have these values; runs of "
            "raw_boosted say how many values could be right.",
        ),
        11: (
            ("boosted",),
            "Rows of a regression follow from targets near what the model predicts: of models in "
            "which counts alone left rows open, most now have all. The last trees of "
            "GradientBoosting are settled in whole numbers, and leaf values of CatBoost choose "
            "between rows that meet all counts.",
        ),
        12: (
            ("raw",),
            "Behind exact counts, rows with raw numbers walk to where thresholds lie halfway "
            "between their values. They miss a few counts and err less.",
        ),
        13: (
            ("known_raw",),
            "Where rows walk, those that their leaves settle are proved, as docs/raw-data.md says.",
        ),
        14: (
            ("boosted",),
            "Where rows of each cell are known, but not where in it they stand, they stand where "
            "the rows of all cells make it likely: more are right in every column. Cells are the "
            "same. Runs have a new figure, the share of rows that their cells tell.",
        ),
        15: (
            ("hidden", "default-forests"),
            "Whether brief walks over hidden draws agree is judged by the R-hat of ranks: some "
            "walks are longer, or shorter, than before.",
        ),
        16: (
            ("hidden",),
            "Membership says whether a row with these values is there, or with a share, whether a "
            "person is; what no chain has met is not ruled out.",
        ),
        17: (
            ("boosted", "boosted-models"),
            "Where sums do not tell which rows a GradientBoosting model had, likely rows are the "
            "answer. Of two fits that miss sums, the nearer one stays; classes of its rows are "
            "those that miss them by least. Hints of CatBoost refuse no rows. Answers that time "
            "ended expect about the error they have. Proved rows are as before.",
        ),
        18: (
            ("hidden", "membership"),
            "Membership: what chains share says how much none has met, and equal rows in datasets "
            "say how far the prior is from the population.",
        ),
        19: (
            ("hidden", "noisy", "draft-dp-figure-12"),
            "With known columns, rows are matched across what was known for the expected error, as "
            "they are for the true one. Rows and errors are the same.",
        ),
        20: (
            ("known_raw",),
            "Candidates behind known draws are struck out and weighed in less time: runs that a "
            "limit ends come further. Narrowing has half of the time where it will probably leave "
            "few places.",
        ),
        21: (
            ("boosted-raw",),
            "Rows of raw tables are followed tree by tree, node by node, and values drawn so that "
            "no other cut was better: the study's first runs knew none of it.",
        ),
        22: (
            ("known_raw",),
            "Where known draws leave several datasets, the answer is their Bayes estimate.",
        ),
        23: (
            ("boosted", "boosted-models"),
            "Rows from leaf values alone are in doubt only where leaves do not tie them together: "
            "confidences and expected errors change, rows do not.",
        ),
        24: (
            ("boosted", "known", "default-forests"),
            "Behind known draws of forests, the order in which nodes looked at columns chooses "
            "between rows of zeros and ones that meet the same counts, and rows change places "
            "where leaves do not agree on targets. What is proved is as before.",
        ),
        25: (
            ("membership",),
            "Membership behind noise: the leaves say of each row how likely it is in place of "
            "others, instead of how many samples hold it. With a share, for all evidence: rows of "
            "datasets say how far the prior is from the population by priors that have not seen "
            "them. Rows and errors are the same.",
        ),
        26: (
            ("boosted", "boosted-models"),
            "Rows that meet all sums and are not proved are surer: of such answers none had a row "
            "in a wrong cell. Confidences and expected errors change, rows do not.",
        ),
        27: (
            ("known", "known_raw", "default-forests"),
            "Behind known draws, probabilities of candidates are fitted in coordinates that leaves "
            "of different sizes share: large tables come further in their time. Where several "
            "datasets stay possible, confidences are those of rows in their places.",
        ),
        28: (
            ("boosted", "boosted-models"),
            "Fits of sums leave out many kinds of rows at once: they come further in their time. "
            "Of large tables there is an answer where there was none: time is left to write it.",
        ),
        29: (
            ("known", "known_raw", "default-forests"),
            "Behind known draws, rows at which counts are missed are fitted as sharply as all rows "
            "are: of 5,000 rows of adult all come back on each of seven seeds.",
        ),
        30: (
            (
                "boosted",
                "boosted-models",
                "boosted-raw",
                "default-forests",
                "draft",
                "draft-figure-5",
                "draft-known-examples",
                "exact",
                "hidden",
                "informed",
                "known",
                "known_raw",
                "membership",
                "raw",
                "raw_boosted",
            ),
            "Binary columns that no tree tests are taken to be nearly constant if the model looked "
            "through many splits. Numbers behind known draws move to where thresholds lie halfway "
            "between values.",
        ),
        31: (
            ("boosted", "boosted-models", "default-forests", "draft", "known", "known_raw"),
            "Known draws that leave several datasets: many short walks, tempered by misses. Raw "
            "numbers on steps are narrowed to these. Counts alone at many rows are fitted by least "
            "squares. Expected errors: known draws are matched, and a wrong value of a one-hot "
            "group is two wrong columns. Errors of forests without bootstrap and with hidden draws "
            "are the same.",
        ),
        32: (
            (
                "boosted",
                "boosted-models",
                "boosted-raw",
                "draft",
                "exact",
                "hidden",
                "known_raw",
                "membership",
                "raw",
                "raw_boosted",
            ),
            "Exact counts of few trees: samples hardly miss counts any more; a tree alone errs "
            "less, and expects what it errs. Shallow exact counts: worlds are found by the solver. "
            "Flags have one prior. Raw numbers of boosted models: untested columns are as sure as "
            "they are, intervals hold their share. Known draws of raw tables: classes come first.",
        ),
        33: (
            ("default-forests", "draft", "exact", "known_raw"),
            "Behind one exact tree, rows are drawn leaf by leaf, and the nearest dataset is an "
            "assignment. Known draws of raw tables: classes from what all leaves count, where "
            "whole trees count too little.",
        ),
        34: (
            ("boosted-raw", "known_raw", "raw", "raw_boosted"),
            "Known draws of raw tables: classes are sought by draws and distinct rows of large "
            "leaves together. Raw numbers where rows miss counts: a second walk says how sure "
            "values are, and how far they are from the training set.",
        ),
        35: (
            ("default-forests", "known_raw"),
            "Known draws of raw tables: where walks take long, they begin where rows probably lie "
            "by what all leaves count. Classes are found in fewer rounds.",
        ),
        36: (
            ("default-forests", "known_raw"),
            "Known draws of raw tables: rows are of kinds, fitted to what leaves count, before it "
            "is asked where each lies. Narrowing ends where it would hardly come to an end.",
        ),
        37: (
            ("boosted-raw", "default-forests", "known_raw"),
            "Known draws of raw tables: thresholds, halfway between two values, say where rows "
            "lie, and rows that miss counts walk on to where they are. Walks cool faster where "
            "the time is short.",
        ),
        38: (
            ("default-forests", "known_raw"),
            "Known draws of raw tables, where rows miss counts: numbers are medians of what is "
            "believed of a row and of where walks have it, and beliefs say how sure values are.",
        ),
        39: (
            ("boosted-raw", "known_raw", "raw", "raw_boosted"),
            "Numbers inside intervals are as common as those of other rows of their class, also "
            "where all trees saw all rows. Rows whose draws are known walk on between thresholds "
            "once every count is met. Mostly even numbers are whole numbers.",
        ),
        40: (
            ("boosted-raw", "raw_boosted"),
            "Boosted models of raw tables: rows that may lie in several boxes lie in likely ones, "
            "and several ways to share them out say how sure values are. LightGBM's cuts say which "
            "others were no better, and of which steps values are. Searches use both cores.",
        ),
        41: (
            ("draft-dp-figure-15",),
            "The reconstructor network learns from five shadow forests of each shadow row, not "
            "from one: it errs less at epsilon 10 to 30.",
        ),
        42: (
            ("boosted-raw", "raw_boosted"),
            "Boosted models of raw tables: nodes with more choices are asked where a search goes "
            "no further, and more searches end.",
        ),
        43: (
            ("boosted-raw", "raw_boosted"),
            "Boosted models of raw tables: choices after which predictions hardly differ are "
            "followed as one, and halves are listed where they can be: more searches end, sooner.",
        ),
        44: (
            ("boosted-raw", "raw_boosted"),
            "Boosted models of raw tables: in columns of few values, rows whose value is known say "
            "more of the others than values that are drawn do.",
        ),
        45: (
            ("raw", "known_raw", "boosted-raw", "raw_boosted"),
            "Raw numbers: values beyond the outermost thresholds of a column lie as far away as so "
            "many rows reach, and expected errors hold how far numbers are off inside intervals.",
        ),
        46: (
            ("raw", "known_raw", "boosted-raw", "raw_boosted"),
            "Raw numbers: values beyond the outermost thresholds lie where so many rows like them "
            "reach, by the odds of being there that other columns give; also in columns with "
            "missing values. Hidden draws of raw numbers: the likelihood counts for half, for "
            "trees put thresholds where the rows that they drew suggest. Samples of posteriors "
            "have numbers inside intervals.",
        ),
        47: (
            ("raw", "raw_boosted"),
            "Raw numbers where all trees saw all rows: all values of a column get other names at "
            "once where thresholds say so, and a share of the time is left for thresholds.",
        ),
        48: (
            ("known_raw",),
            "Known draws on grids too large to list: columns without ends (every schema inferred "
            "from a model alone) no longer ruin what is believed of rows, and the solver hears of "
            "more leaves that rows were in.",
        ),
        49: (
            ("exact", "membership"),
            "Where exact counts leave several datasets, walking rows exchange several values at "
            "once, and other chains judge the answer than those that made it. Stored studies of "
            "exact counts err a little more until run again. LiRA's scores stay apart where it is "
            "surest.",
        ),
        50: (
            ("boosted-raw", "raw", "raw_boosted"),
            "Raw numbers of XGBoost's models beside columns of few values: rows lie right beside "
            "each cut again.",
        ),
        51: (
            ("draft",),
            "Forests without bootstrap whose counts leave several datasets: rows exchange several "
            "values at once, and chains walk on until they agree (as version 49 says).",
        ),
        52: (
            (
                "exact",
                "hidden",
                "known",
                "draft",
                "noisy",
                "membership",
                "boosted",
                "boosted-raw",
                "raw",
                "raw_boosted",
            ),
            "Priors of what no tree tests are neutral, no longer fitted to tables: Jeffreys' law "
            "of the share of ones, an exponential density beyond the outermost thresholds. Equal "
            "costs count as equal on every processor.",
        ),
        53: (
            ("boosted", "known", "default-forests"),
            "The order in which nodes looked at columns is no longer replayed (version 24): it "
            "proved no row, and chose between few that meet the same counts.",
        ),
        54: (
            ("raw",),
            "Walks over grids too large to list no longer stop to look for a proof that the counts "
            "contradict each other: they have that time, and such counts end as unknown.",
        ),
    }
)
RESULTS_VERSION = max(CHANGES)


def results_version(experiment: str) -> int:
    """Find the last version that changed what an experiment answers."""
    return max(
        version for version, (which, _) in CHANGES.items() if not which or experiment in which
    )


def say_versions(versions: Iterable[int]) -> str:
    """Say of which versions runs are: "results version 1", "results versions 1, 2"."""
    names = [str(v) for v in sorted(set(versions))]
    return f"results version{'s' * (len(names) > 1)} {', '.join(names)}"
