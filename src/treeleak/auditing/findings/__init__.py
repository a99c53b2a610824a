"""From measurements to findings, verdict and advice: the rules, in words and numbers."""
