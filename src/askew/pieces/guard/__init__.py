"""Guards, one per file: which updates the server leaves out."""

from askew.pieces.guard.leave_out import leave_out

__all__ = ["leave_out"]
