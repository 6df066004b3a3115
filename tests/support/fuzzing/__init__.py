"""Damaged files for every reader: how they are made, what becomes of them, and the table of readers."""
