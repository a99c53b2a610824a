"""What every room uses: time, files, plain text, classes that show no value. Knows no model."""
