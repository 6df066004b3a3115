"""Runs of several processes: what they do, for those who start them and for those who are started."""
