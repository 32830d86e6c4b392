"""Ranks that are started, and what they sum: run, verify, demo."""
