"""A frozen set of model files of all kinds, attacks on each, and a board of what came back.

``make`` trains the models and writes two archives: one with the model files and what is public of
their tables, one with the truth. ``run`` attacks each file, ``score`` holds rows against the truth,
``board`` sums up.
"""
