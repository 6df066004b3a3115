"""The small steps of which every method is composed, one a file, and the methods."""
