"""Keeps the ledger true, reports placements, wakes what waits, and owns the certificates. One leader at a time."""
