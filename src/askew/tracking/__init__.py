"""Numbers of runs in TensorBoard, MLflow or Weights & Biases, live or afterwards; the run folder stays the truth.

    with askew.tracking.Tracking("tensorboard", folder="runs/first") as track:
        askew.run(recipe, out="runs/first", on_round=track)
"""

from askew.tracking.tracking import TRACKERS, Tracker, Tracking, send

__all__ = ["TRACKERS", "Tracker", "Tracking", "send"]
