"""What an adversary knows beside the model: rows, columns, a population."""
