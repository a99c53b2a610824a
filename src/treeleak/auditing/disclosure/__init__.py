"""What of an audit may leave the house."""
