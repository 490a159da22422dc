"""Everything breaks at once, on a real control plane: `python -m tests.chaos`."""
