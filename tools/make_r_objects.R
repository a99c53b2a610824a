# Objects of R of any class for the tests of the reader and of the inventory: values of all kinds,
# and models, functions and workspaces that hold the rows they were made from.
#
# Rscript tools/make_r_objects.R tests/models/r
#
# Needs the packages ranger, rpart, caret and recipes (Debian: r-cran-...).

suppressPackageStartupMessages({
  library(ranger)
  library(rpart)
  library(caret)
  library(recipes)
})
out <- commandArgs(trailingOnly = TRUE)[1]
dir.create(out, showWarnings = FALSE, recursive = TRUE)
at <- function(name) file.path(out, paste0("object_", name))
put <- function(x, name, ...) saveRDS(x, at(paste0(name, ".rds")), ...)
set.seed(1)
setClass("Kept", representation(a = "numeric", b = "list"))
setClass("Study", representation(size = "numeric", cohort = "data.frame"))

# ------------------------------------------------------------------------------ values of all kinds

loop <- new.env()
loop$self <- loop
loop$n <- 3L
inner <- new.env(parent = loop)
values <- list(
  nothing = NULL, flags = c(TRUE, FALSE), gaps = c(TRUE, NA), whole = c(1L, -5L),
  whole_gaps = c(1L, NA), real = c(0.1, NA, NaN, -Inf), complex = 3 + 2i, raw = as.raw(1:3),
  texts = c("a", NA, "\u00e9"), latin = iconv("\u00e9", "UTF-8", "latin1"),
  sequence = 1:1000, backwards = 5:1, real_sequence = as.numeric(1:7),
  digits = as.character(1:20), sorted = sort(c(3, 1, 2)),
  matrix = matrix(1:6, 2), table = table(c("x", "y", "x")),
  factor = factor(c("b", NA, "a")), date = as.Date("2020-02-01"),
  frame = data.frame(u = c(1.5, 2.5), v = c("p", "q"), stringsAsFactors = TRUE),
  named_rows = data.frame(u = 1:2, row.names = c("r1", "r2")),
  partly = c(a = 1, 2), list_partly = list(a = 1, 2), same = list(a = 1, a = 2),
  classed = structure(list(a = 1, 2), class = c("one", "two")), call = quote(f(x, k = 2)),
  symbol = as.name("s"), expression = expression(a + b), pairs = pairlist(a = 1, b = 2),
  formula = local(y ~ x + z, loop), code = compiler::cmpfun(function(x) { x + 1; x + 1 }),
  closure = local(function(q, w = 2) q, inner), loop = loop, again = loop,
  base = baseenv(), namespace = asNamespace("stats"), builtin = sum,
  s4 = new("Kept", a = 1, b = list(2)),
  dim = array(1:24, c(2, 3, 4))
)
put(values, "values", compress = "xz")
put(values, "values_v2", version = 2)
put(values, "values_plain", compress = FALSE)
file <- file(at("values_little.rds"), "wb")
serialize(values, file, xdr = FALSE)
close(file)
put(1:3, "text", ascii = TRUE, compress = FALSE)

# --------------------------------------------------------------- what holds the rows it was made of

table <- data.frame(age = sample(20:80, 40, TRUE), weight = round(rnorm(40, 70, 9), 1),
                    smokes = factor(sample(c("no", "yes"), 40, TRUE)),
                    sick = factor(sample(c("no", "yes"), 40, TRUE)))
write.csv(table, at("rows.csv"), row.names = FALSE, quote = FALSE)
clean <- function(x) { environment(x) <- globalenv(); x }
put(lm(weight ~ age + smokes, table), "lm", compress = "bzip2")
put(glm(sick ~ age, binomial, table), "glm", compress = "xz")
put(train(table[1:3], table$sick, method = "rpart", trControl = trainControl(method = "none"),
          tuneGrid = data.frame(cp = 0.01))[c("trainingData", "method", "bestTune")],
    "train", compress = "xz")
put(recipe(sick ~ ., table), "recipe", compress = "xz")
put(local({
  kept <- table
  function(x) mean(x)
}), "closure", compress = "xz")
put(list(formula = local({
  m <- data.matrix(table)
  y ~ x
}), trees = 3), "formula", compress = "xz")
put(structure(list(a = 1, b = "x"), note = as.list(table), class = "settings"), "attribute",
    compress = "xz")
put(new("Study", size = 40, cohort = table), "s4", compress = "xz")
put(list(a = list(b = list(list(1, list(data.matrix(table)))))), "nested", compress = "xz")
put(list(call = as.call(list(as.name("fit"), quote(y ~ x), data = table))), "call",
    compress = "xz")
forest <- ranger(sick ~ ., table, num.trees = 5, seed = 1, num.threads = 1)
threshold <- 0.5
save(table, forest, threshold, file = at("workspace.RData"), compress = "bzip2")

# ------------------------------------------------------------------------- what holds none of them

forest$predictions <- NULL
forest$call <- NULL
put(forest, "clean_forest", compress = "xz")
put(list(ntree = 500, columns = names(table), grid = expand.grid(mtry = 1:5, size = c(1, 5, 10))),
    "clean_settings", compress = "xz")
tree <- rpart(sick ~ age + weight, table)
put(tree[c("frame", "splits", "cptable", "method", "control", "ordered")], "clean_tree",
    compress = "xz")
put(clean(function(x) findInterval(x, c(0.1, 0.5, 0.9))), "clean_function", compress = "xz")
put(summary(lm(weight ~ age + smokes, table))$coefficients, "clean_coefficients", compress = "xz")
