"""The small steps of which every method is composed, one per file, and the methods."""
