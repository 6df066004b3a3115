"""Every piece that comes with askew: importing this files all of them under their names."""

import askew.data
import askew.models
import askew.partition
import askew.pieces.adversity
import askew.pieces.client
import askew.pieces.guard
import askew.pieces.methods
import askew.pieces.objective
import askew.pieces.pool
import askew.pieces.preprocess
import askew.pieces.probe
import askew.pieces.schedule
import askew.pieces.server
import askew.pieces.start  # noqa: F401
