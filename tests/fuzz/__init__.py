"""Generated pods, clusters and reviews, and the laws that every answer keeps.

The tables are in `words`; what is made from them is used by `python -m tests.fuzz` and by the property tests alike.
"""
