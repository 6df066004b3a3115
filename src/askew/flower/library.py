"""What of Flower is used, in one place: where a version has moved a name, this file says so and nothing else does."""

from __future__ import annotations

import logging
from typing import Any

from askew.core.errors import AskewError

INSTALL = "pip install 'askew[flower]'"

try:
    import flwr.app
    import flwr.clientapp
    import flwr.common.constant
    import flwr.serverapp
except ImportError as error:
    raise AskewError(f"a deployment needs Flower ({error}): {INSTALL}") from None

# Any: askew is type-checked with Flower and without it
Array: Any = flwr.app.Array
ArrayRecord: Any = flwr.app.ArrayRecord
ClientApp: Any = flwr.clientapp.ClientApp
ConfigRecord: Any = flwr.app.ConfigRecord
Context: Any = flwr.app.Context
Error: Any = flwr.app.Error
ErrorCode: Any = flwr.common.constant.ErrorCode
Message: Any = flwr.app.Message
MetricRecord: Any = flwr.app.MetricRecord
RecordDict: Any = flwr.app.RecordDict
ServerApp: Any = flwr.serverapp.ServerApp


def to_array(values: Any) -> Any:
    """A numpy array as Flower sends it: numpy's own format, written with allow_pickle=False."""
    return Array(values)


def say(line: str, error: Exception | None = None) -> None:
    """One line into Flower's log, which `flwr log` shows; an error with where it came from."""
    logging.getLogger("flwr").log(logging.INFO if error is None else logging.ERROR, "askew: %s", line, exc_info=error)
