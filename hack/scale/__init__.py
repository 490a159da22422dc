"""A big cluster on paper, served to the real processes."""
