"""Wheels: named by their flags, the same bytes every time, and told what they were made from."""
