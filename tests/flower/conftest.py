"""What tests of the deployment share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from said import Said


@pytest.fixture
def said() -> Iterator[Said]:
    logger, handler = logging.getLogger("flwr"), Said()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)
