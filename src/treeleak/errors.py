"""What can go wrong, as users meet it: errors and warnings."""
