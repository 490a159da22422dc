"""Stand-ins for what the product talks to, with the faults that the real ones show seldom."""
