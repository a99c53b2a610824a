"""What lies in a model's file, part by part; what no rule knows is unknown."""
