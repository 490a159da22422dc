"""Plays cases, written down as YAML, against the product: `python -m tests.cases run <file|folder>`."""
