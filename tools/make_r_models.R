# Tree models of R for the tests, each with its truth: the training rows, the leaf of each row in
# each tree (numbered as the library does), and what the model predicts for each row.
#
# Rscript tools/make_r_models.R tests/models/r
#
# Needs the packages ranger, randomForest, rpart and party (Debian: r-cran-...).

suppressPackageStartupMessages({
  library(ranger)
  library(randomForest)
  library(rpart)
  library(partykit)
})
out <- commandArgs(trailingOnly = TRUE)[1]
dir.create(out, showWarnings = FALSE, recursive = TRUE)

write_truth <- function(name, model, table, leaf = NULL, prediction = NULL) {
  saveRDS(model, file.path(out, paste0(name, ".rds")), compress = "xz")
  truth <- function(what, data) {
    file <- file.path(out, paste0(name, ".", what, ".csv"))
    data <- as.data.frame(lapply(as.data.frame(data), function(x) {
      if (is.double(x)) ifelse(is.na(x), NA, sprintf("%.17g", x)) else as.character(x)
    }))
    write.csv(data, file, row.names = FALSE, quote = FALSE, na = "")
  }
  truth("rows", table)
  if (!is.null(leaf)) truth("leaf", leaf)
  if (!is.null(prediction)) truth("prediction", prediction)
}

# Rows of 0/1 columns, of which some depend on others, and a class.
binary <- function(n, columns) {
  set.seed(1)
  x <- matrix(rbinom(n * columns, 1, 0.5), n, columns)
  x[, 2] <- ifelse(runif(n) < 0.8, x[, 1], x[, 2])
  x[, 4] <- ifelse(runif(n) < 0.7, x[, 3], x[, 4])
  chance <- plogis(1.5 * x[, 1] - 1.2 * x[, 3] + x[, 5] * x[, 6] - 0.3)
  data.frame(x, y = factor(ifelse(runif(n) < chance, "yes", "no")))
}
flags <- binary(80, 8)
measures <- data.frame(infert[seq(1, 248, 3), c("education", "age", "parity", "spontaneous")],
                       case = factor(infert$case[seq(1, 248, 3)], labels = c("no", "yes")))
rownames(measures) <- NULL
cars <- data.frame(mtcars[, c("mpg", "cyl", "disp", "hp", "wt", "qsec")], row.names = NULL)
gaps <- data.frame(stagec[, c("age", "eet", "g2", "grade", "gleason", "ploidy")],
                   progressed = factor(stagec$pgstat))[1:100, ]
terminal <- function(model, data) predict(model, data, type = "terminalNodes")$predictions

# ------------------------------------------------------------------------------------- ranger

model <- ranger(y ~ ., flags, num.trees = 40, probability = TRUE, keep.inbag = TRUE, seed = 7,
                num.threads = 1)
write_truth("ranger_probability_inbag", model, flags, terminal(model, flags),
            predict(model, flags)$predictions)
model <- ranger(case ~ ., measures, num.trees = 10, seed = 7, num.threads = 1)
write_truth("ranger_classification", model, measures, terminal(model, measures),
            predict(model, measures, predict.all = TRUE)$predictions)
model <- ranger(case ~ ., measures, num.trees = 10, probability = TRUE, seed = 8, num.threads = 1,
                respect.unordered.factors = "partition", replace = FALSE)
write_truth("ranger_probability_partition", model, measures, terminal(model, measures),
            predict(model, measures)$predictions)
model <- ranger(mpg ~ ., cars, num.trees = 10, keep.inbag = TRUE, seed = 9, num.threads = 1)
write_truth("ranger_regression_inbag", model, cars, terminal(model, cars),
            predict(model, cars)$predictions)

# ------------------------------------------------------------------------------- randomForest

set.seed(10)
model <- randomForest(case ~ ., measures, ntree = 10)
nodes <- attr(predict(model, measures, nodes = TRUE), "nodes")
write_truth("randomforest_classification", model, measures, nodes,
            predict(model, measures, type = "prob"))
set.seed(11)
model <- randomForest(mpg ~ ., cars, ntree = 10, keep.inbag = TRUE)
nodes <- attr(predict(model, cars, nodes = TRUE), "nodes")
write_truth("randomforest_regression_inbag", model, cars, nodes,
            data.frame(prediction = as.vector(predict(model, cars))))
set.seed(12)
model <- randomForest(flags[, 1:8], flags$y, ntree = 40)
nodes <- attr(predict(model, flags[, 1:8], nodes = TRUE), "nodes")
write_truth("randomforest_flags", model, flags, nodes,
            predict(model, flags[, 1:8], type = "prob"))

# -------------------------------------------------------------------------------------- rpart

set.seed(13)
model <- rpart(progressed ~ ., gaps, minsplit = 6, cp = 0.005, y = TRUE)
write_truth("rpart_classification", model, gaps, data.frame(leaf = model$where),
            predict(model, gaps))
model <- rpart(mpg ~ ., cars, minsplit = 4, cp = 0.001)
write_truth("rpart_regression", model, cars, data.frame(leaf = model$where),
            data.frame(prediction = predict(model, cars)))

# --------------------------------------------------------------------------------------- ctree

# An object that treeleak takes apart as any other of R: rows lie in its environments.
model <- party::ctree(case ~ ., measures,
                      controls = party::ctree_control(mincriterion = 0.2, minbucket = 5))
saveRDS(model, file.path(out, "object_party.rds"), compress = "xz")
