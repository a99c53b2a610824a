"""What is known beside the model: rows, columns, a population, an earlier release."""
