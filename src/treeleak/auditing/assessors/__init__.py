"""What an audit measures, one module for each question."""
