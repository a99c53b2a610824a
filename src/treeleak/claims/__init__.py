"""Claims: predicates of which the counts of a model prove that exactly one training row meets them.

They hold in every table that meets the counts, so nobody has to rebuild a table for them.
"""
