"""What tests of several folders share."""

import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from askew.core.errors import AskewError

# What torch compiles here is small: a pool of processes for it takes longer to start than to compile.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# A suite that is started in the background inherits that SIGINT is ignored, and hands that on to what it interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
_modules = 0  # when garbage collection last left out what there was
Refused = Callable[[str], contextlib.AbstractContextManager[None]]


def pytest_collection_finish() -> None:
    """Thousands of tests and all modules live as long as the process: a full garbage collection, which some tests ask
    for again and again, need not look at them each time."""
    global _modules
    gc.collect()
    gc.freeze()
    _modules = len(sys.modules)


def pytest_runtest_logfinish() -> None:
    """Again, once a test has loaded torch's compiler: a thousand modules, with which later tests took 12% longer."""
    if len(sys.modules) > _modules + 300:
        pytest_collection_finish()


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """For tests of bits and of times: several threads share a product in ways that depend on its size."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def refused() -> Refused:
    """`with refused(pattern):` the body must raise one AskewError of one line that matches the pattern."""

    @contextlib.contextmanager
    def check(pattern: str) -> Iterator[None]:
        with pytest.raises(AskewError) as caught:
            yield
        message = str(caught.value)
        assert "\n" not in message
        assert re.search(pattern, message), message

    return check
