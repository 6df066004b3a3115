"""What Flower's logger is told."""

from __future__ import annotations

import logging


class Said(logging.Handler):
    """What Flower's logger was told, from INFO on: pytest's own plugin for it looks at 400 loggers around each of all
    tests, and is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]
