"""CIFAR-10's Python batches: pickles, read by an interpreter of the few opcodes that they consist of.

Python's own unpickler calls what a file names, and even numpy's names alone are enough to corrupt the memory. Here
nothing is called: a batch is a dictionary of words, lists and one array of bytes, and whatever else a pickle could ask
for is refused. Read are the batches as they were published (Python 2, protocol 2) and as Python 3 writes them again
(protocols 2 to 4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

MOST_STEPS = 100_000  # a batch of 10,000 images takes some 31,000
_NAMES = {("numpy.core.multiarray", "_reconstruct"): "array", ("numpy._core.multiarray", "_reconstruct"): "array",
          ("numpy", "ndarray"): "ndarray", ("numpy", "dtype"): "dtype", ("_codecs", "encode"): "encode"}
# opcode -> bytes of the number behind it, little-endian: how much follows, an integer, or a place in the memo
_LENGTHS = {b"U": 1, b"T": 4, b"X": 4, b"\x8c": 1, b"C": 1, b"B": 4, b"\x8e": 8, b"\x8a": 1}
_WORDS = b"UX\x8c"  # Python 2 writes words with U, as those of a batch are shorter than 256 letters; T is the images
_INTEGERS = {b"K": 1, b"M": 2, b"J": 4}
_PUT, _GET = {b"q": 1, b"r": 4}, {b"h": 1, b"j": 4}
_TUPLES = {b")": 0, b"\x85": 1, b"\x86": 2, b"\x87": 3}
_PLAIN: dict[bytes, Any] = {b"N": None, b"\x88": True, b"\x89": False}
_SKIPPED = {b"\x80": 1, b"\x95": 8}  # the protocol; the length of a frame


class Refused(ValueError):
    """Something that a batch of images does not need."""


class _Name:
    """A name of numpy's, which stands for itself and is never looked up."""

    def __init__(self, what: str) -> None:
        self.what = what


class _Made:
    """What a call of such a name would have made: an array or its type, to be filled by BUILD."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.array: np.ndarray | None = None


def read_pickle(content: bytes) -> Any:
    """What a pickle holds: dictionaries by words, lists, tuples, words, bytes, whole numbers, arrays of bytes.

    Raises:
        Refused: for all else.
        ValueError, IndexError, KeyError: where the pickle is damaged.

    Example:
        >>> import pickle
        >>> read_pickle(pickle.dumps({"data": np.zeros((2, 3), np.uint8), "labels": [7, 1]}, protocol=2))["labels"]
        [7, 1]
    """
    return _Reader(content).run()


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.encoded = 0  # bytes made by calls of `encode`; no more than the file has

    def run(self) -> Any:
        for _ in range(MOST_STEPS):
            opcode = self.take(1)
            if opcode == b".":
                top = self.stack.pop()
                return {key: _plain(value) for key, value in top.items()} if isinstance(top, dict) else top
            self.step(opcode)
        raise Refused(f"it takes more than {MOST_STEPS:,} steps")

    def step(self, op: bytes) -> None:
        stack = self.stack
        if op in _INTEGERS:
            stack.append(int.from_bytes(self.take(_INTEGERS[op]), "little", signed=op == b"J"))
        elif op in _LENGTHS:
            stack.append(self.text_or_bytes(op, self.take(self.number(_LENGTHS[op]))))
        elif op in _PUT or op == b"\x94":
            self.memo[self.number(_PUT[op]) if op in _PUT else len(self.memo)] = stack[-1]
        elif op in _GET:
            stack.append(self.memo[self.number(_GET[op])])
        elif op in _TUPLES:
            count = _TUPLES[op]
            parts = [stack.pop() for _ in range(count)]
            stack.append(tuple(reversed(parts)))
        elif op in _PLAIN:
            stack.append(_PLAIN[op])
        elif op in _SKIPPED:
            self.take(_SKIPPED[op])
        elif op in b"}]":
            stack.append({} if op == b"}" else [])
        elif op == b"(":
            self.marks.append(len(stack))
        elif op == b"t":
            stack.append(tuple(self.since_mark()))
        elif op in b"ae":
            values = [stack.pop()] if op == b"a" else self.since_mark()
            _of_type(stack[-1], list).extend(values)
        elif op in b"su":
            values = [stack.pop(-2), stack.pop()] if op == b"s" else self.since_mark()
            keys = [_of_type(key, str) for key in values[::2]]
            _of_type(stack[-1], dict).update(zip(keys, values[1::2], strict=True))
        elif op == b"c":
            stack.append(_name(self.line(), self.line()))
        elif op == b"\x93":
            name = stack.pop()
            stack.append(_name(_of_type(stack.pop(), str), _of_type(name, str)))
        elif op == b"R":
            arguments = stack.pop()
            stack.append(self.called(_of_type(stack.pop(), _Name).what, _of_type(arguments, tuple)))
        elif op == b"b":
            state = stack.pop()
            _fill(_of_type(stack[-1], _Made), _of_type(state, tuple))
        else:
            raise Refused(f"it has the opcode {op!r} at byte {self.at - 1}, which a batch of images does not need")

    def take(self, count: int) -> bytes:
        if count > len(self.content) - self.at:
            raise ValueError("it ends too early")
        self.at += count
        return self.content[self.at - count : self.at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "little")

    def line(self) -> str:
        end = self.content.index(b"\n", self.at, self.at + 200)
        return self.take(end + 1 - self.at)[:-1].decode("latin-1")

    def since_mark(self) -> list[Any]:
        mark = self.marks.pop()
        values = self.stack[mark:]
        del self.stack[mark:]
        return values

    def text_or_bytes(self, op: bytes, content: bytes) -> Any:
        if op == b"\x8a":  # a long integer
            return int.from_bytes(content, "little", signed=True)
        if op not in _WORDS:
            return content
        return content.decode("latin-1" if op == b"U" else "utf-8")

    def called(self, what: str, arguments: tuple[Any, ...]) -> Any:
        if what == "encode" and [type(a) for a in arguments] == [str, str] and arguments[1] == "latin1":
            self.encoded += len(arguments[0])
            if self.encoded <= len(self.content):
                return arguments[0].encode("latin-1")
        if what == "dtype" and arguments[1:] in ((0, 1), (False, True)):
            if arguments[0] != "u1":
                raise Refused(f"it has an array of type {str(arguments[0])[:20]!r}; there is no array 'data' of uint8")
            return _Made("dtype")
        if what == "array" and len(arguments) == 3 and getattr(arguments[0], "what", "") == "ndarray":
            return _Made("array")
        raise Refused(f"it calls {what} in a way that a batch of images does not need")


def _name(module: str, name: str) -> _Name:
    if (module, name) not in _NAMES:
        raise Refused(f"refused: the pickle asks for {module[:100]}.{name[:100]}, which a batch of images does not "
                      "need")
    return _Name(_NAMES[module, name])


def _fill(made: _Made, state: tuple[Any, ...]) -> None:
    """BUILD: of a type, the state that unsigned bytes have; of an array, shape and content that fit each other."""
    if made.what == "dtype":
        if state != (3, "|", None, None, None, -1, -1, 0):
            raise Refused("its array is of no plain type")
        return
    version, shape, dtype, fortran, content = state if len(state) == 5 else (None, (), None, None, b"")
    plain = version == 1 and getattr(dtype, "what", "") == "dtype" and type(fortran) is bool and type(content) is bytes
    if not plain or type(shape) is not tuple or [type(size) for size in shape] != [int, int]:
        raise Refused("its array is not a plain table of bytes")
    if min(shape) < 0 or shape[0] * shape[1] != len(content):
        raise ValueError(f"its array has {len(content)} bytes, its shape is {shape}")
    made.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


def _plain(value: Any) -> Any:
    return value.array if isinstance(value, _Made) else value


def _of_type(value: Any, wanted: type) -> Any:
    if type(value) is not wanted:
        names = [kind.__name__.strip("_").lower() for kind in (type(value), wanted)]
        raise Refused(f"it has a {names[0]} where a batch of images has a {names[1]}")
    return value
