"""What lasts: runs, sweeps and comparisons, and the folders that hold them."""
