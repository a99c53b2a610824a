# Write release.json, which `treeleak audit release.json` reads, from a classification or
# probability forest of the R packages ranger or randomForest. Needs the package jsonlite.
#
#   library(ranger)
#   fit <- ranger(x = X, y = y, replace = FALSE, sample.fraction = 1, keep.inbag = TRUE)
#   source("export_ranger.R")
#   write_release(fit, X, y, "release.json")
#
# X is the training table (numeric columns only), y the factor of its labels. `keep.inbag = TRUE`
# changes nothing in the trees; it records which rows each tree drew, so that the counts are
# those that the tree was grown from. The counts are made here from X and y: see the guide to the
# format for what that means.

write_release <- function(fit, X, y, path) {
  X <- as.data.frame(X, optional = TRUE)
  numeric <- vapply(X, function(column) is.numeric(column) || is.logical(column), logical(1))
  if (!all(numeric)) stop("column ", names(X)[!numeric][1], " is not numeric: encode it first")
  if (anyNA(X)) stop("missing values are not supported by this script")
  if (!is.factor(y) || anyNA(y)) stop("y must be a factor without missing labels")
  y <- droplevels(y)
  forest <- if (inherits(fit, "ranger")) from_ranger(fit, X)
    else if (inherits(fit, "randomForest")) from_random_forest(fit, X)
    else stop("neither a ranger nor a randomForest")
  draws <- forest$draws
  if (length(draws[[1]]) != nrow(X) || length(y) != nrow(X))
    stop("X and y are not the training set: the forest was grown on ", length(draws[[1]]), " rows")
  all_rows <- all(vapply(draws, function(b) all(b == 1), logical(1)))
  replaced <- any(vapply(draws, function(b) any(b > 1), logical(1)))
  n_draws <- unique(vapply(draws, sum, numeric(1)))
  sampling <- if (all_rows) list(kind = "all")
    else if (replaced && length(n_draws) == 1)
      list(kind = "bootstrap", n_draws = n_draws)
    else list(kind = "unknown", why = "trees were grown on parts of the rows, without replacement")
  trees <- Map(function(nodes, leaf, b) count_nodes(nodes, leaf, b, y),
               forest$nodes, forest$leaves, draws)
  package <- class(fit)[1]
  release <- list(
    format = "treeleak-release", version = 2L,
    origin = paste(package, as.character(utils::packageVersion(package))),
    columns = I(names(X)), classes = I(levels(y)), n_rows = nrow(X),
    counts_are = if (all_rows) "rows" else "draws", sampling = sampling,
    float_type = "float64", trees = unname(trees)
  )
  # 17 significant digits name every double exactly; jsonlite would write 15 at most by itself.
  text <- jsonlite::toJSON(release, auto_unbox = TRUE, digits = I(17), na = "null", null = "null")
  writeLines(enc2utf8(text), path, useBytes = TRUE)
}

# Both functions return, per tree: the nodes as the release format has them, the leaf of each row
# of X (from 0), and how often each row was drawn.

from_ranger <- function(fit, X) {
  if (is.null(fit$inbag.counts)) stop("fit the forest with keep.inbag = TRUE")
  if (!fit$treetype %in% c("Classification", "Probability estimation"))
    stop("a forest of type ", fit$treetype, " has no classes")
  leaves <- predict(fit, X, type = "terminalNodes", num.threads = 1)$predictions
  nodes <- lapply(seq_len(fit$num.trees), function(t) {
    info <- ranger::treeInfo(fit, t)
    leaf <- info$terminal
    list(feature = ifelse(leaf, -1L, match(info$splitvarName, names(X)) - 1L),
         threshold = ifelse(leaf, NA, info$splitval),
         left = ifelse(leaf, -1L, as.integer(info$leftChild)),
         right = ifelse(leaf, -1L, as.integer(info$rightChild)))
  })
  list(nodes = nodes, draws = fit$inbag.counts,
       leaves = lapply(seq_len(ncol(leaves)), function(t) leaves[, t]))
}

from_random_forest <- function(fit, X) {
  if (fit$type != "classification") stop("a forest of type ", fit$type, " has no classes")
  if (is.null(fit$inbag)) stop("fit the forest with keep.inbag = TRUE")
  leaves <- attr(predict(fit, X, nodes = TRUE), "nodes")
  nodes <- lapply(seq_len(fit$ntree), function(t) {
    tree <- randomForest::getTree(fit, t)
    leaf <- tree[, "status"] == -1
    list(feature = as.integer(ifelse(leaf, 0, tree[, "split var"])) - 1L,
         threshold = ifelse(leaf, NA, tree[, "split point"]),
         left = ifelse(leaf, -1L, as.integer(tree[, "left daughter"]) - 1L),
         right = ifelse(leaf, -1L, as.integer(tree[, "right daughter"]) - 1L))
  })
  list(nodes = lapply(nodes, lapply, unname),
       draws = lapply(seq_len(ncol(fit$inbag)), function(t) unname(fit$inbag[, t])),
       leaves = lapply(seq_len(ncol(leaves)), function(t) unname(leaves[, t]) - 1))
}

count_nodes <- function(nodes, leaf, drawn, y) {
  n <- length(nodes$feature)
  at <- factor(leaf + 1, levels = seq_len(n))
  counts <- unclass(xtabs(drawn ~ at + y))
  distinct <- as.integer(xtabs((drawn > 0) ~ at))
  # Children stand behind their parent, so one pass from the end sums them up.
  for (node in rev(which(nodes$left >= 0))) {
    children <- c(nodes$left[node], nodes$right[node]) + 1
    counts[node, ] <- colSums(counts[children, , drop = FALSE])
    distinct[node] <- sum(distinct[children])
  }
  counts <- matrix(as.integer(counts), nrow = n)
  # I() keeps a tree of one node a list.
  c(lapply(nodes, I), list(counts = counts, distinct = I(distinct)))
}
