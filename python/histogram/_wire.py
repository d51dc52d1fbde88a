"""Writes and reads the messages of proto/histogram/v1/histogram.proto that this package needs.

It does not use the package protobuf. Messages are few. Apart from samples and counts they are
small. Samples are copied once, into their message. Counts are read in place. A test compares every
field with the contract.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]

# The numbers of histogram.v1.SampleType.
SAMPLE_TYPES = {
    "u8": 1, "i8": 2, "u16": 3, "i16": 4, "u32": 5, "i32": 6, "u64": 7, "i64": 8,
    "f16": 9, "bf16": 10, "f32": 11, "f64": 12,
}  # fmt: skip

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MEDIAN = 3  # histogram.v1.Statistic


class BadReply(ValueError):
    """Bytes that are not a message of the contract."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


def _reader(read: Callable[_P, _T]) -> Callable[_P, _T]:
    """Raises BadReply for a field of another form than the contract's."""

    @functools.wraps(read)
    def checked(*arguments: _P.args, **named: _P.kwargs) -> _T:
        try:
            return read(*arguments, **named)
        except (TypeError, OverflowError) as error:
            raise BadReply(str(error)) from None

    return checked


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _number(field: int, number: int) -> bytes:
    """A number field. Leaves it out if it is 0: the meaning is the same."""
    return _varint(field << 3 | _VARINT) + _varint(number) if number else b""


def _piece(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(data)) + data


def _doubles(field: int, numbers: npt.NDArray[np.float64]) -> bytes:
    return _piece(field, np.ascontiguousarray(numbers, "<f8").tobytes())


def spec(
    kind: str,
    bins: npt.NDArray[np.float64] | int,
    *,
    rows: tuple[int, int, int] | None = None,
    quantiles: Sequence[float] = (),
) -> bytes:
    """A Spec that asks for counts between the edges `bins`, or in so many bins over each row's own
    range. `rows`: (window, step, channels); a window of 0 is the whole payload. With `quantiles` it
    asks for these, and for no counts."""
    if isinstance(bins, int):
        binning = _piece(1, _number(1, bins) + _number(5, 1))
    else:
        binning = _piece(2, _doubles(1, bins))
    out = _number(1, SAMPLE_TYPES[kind]) + _piece(2, binning)
    if len(quantiles):
        # statistics_only leaves out all statistics but the median. Quantiles always come.
        out += _number(3, 1) + _doubles(4, np.asarray(quantiles, np.float64)) + _number(6, 1)
        out += _number(9, _MEDIAN)
    if rows is not None:
        window, step, channels = rows
        cut = _piece(1, _number(1, window) + _number(2, step)) if window else b""
        out += _piece(7, cut + _number(4, channels))
    return out


def request(spec: bytes | None, *samples: Any) -> bytes:
    """A ComputeRequest or an AccumulateRequest: their fields have the same numbers.

    `samples`: contiguous buffers; the payload is their concatenation."""
    size = sum(memoryview(part).nbytes for part in samples)
    head = b"" if spec is None else _piece(1, spec)
    if size == 0:
        return head
    return b"".join((head, _varint(15 << 3 | _BYTES), _varint(size), *samples))


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise BadReply("a varint of more than 10 bytes")


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """The number and value of each field. The value is an int or, for other forms, the bytes."""
    at = 0
    try:
        while at < len(data):
            tag, at = _read_varint(data, at)
            field, form = tag >> 3, tag & 7
            if form == _VARINT:
                value, at = _read_varint(data, at)
                yield field, value
                continue
            size = {_FIXED64: 8, _FIXED32: 4}.get(form)
            if form == _BYTES:
                size, at = _read_varint(data, at)
            if size is None or at + size > len(data):
                raise BadReply(f"field {field} is cut off, or of a form that is not known")
            yield field, data[at : at + size]
            at += size
    except IndexError:
        raise BadReply("the message is cut off") from None


def _fixed64(data: memoryview) -> Counts:
    if len(data) % 8 != 0:
        raise BadReply(f"{len(data)} bytes of counts")
    return np.frombuffer(data, "<i8")


def _varints(data: memoryview) -> Counts:
    """Reads packed varints."""
    octets = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(octets < 0x80)
    if len(octets) == 0 or len(ends) == len(octets):
        return octets.astype(np.int64)
    if octets[-1] >= 0x80:
        raise BadReply("packed numbers are cut off")
    starts = np.concatenate([[0], ends[:-1] + 1])
    place = np.arange(len(octets)) - np.repeat(starts, ends - starts + 1)
    parts = (octets & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(parts, starts).astype(np.int64)


@dataclass
class Answer:
    """The content of a ComputeResponse or an AccumulateResponse."""

    counts: Counts  # row by row
    samples: int = 0
    # A number for each row; None if all are 0.
    below: Counts | None = None
    above: Counts | None = None
    nan: Counts | None = None
    quantiles: npt.NDArray[np.float64] | None = None  # row by row
    # The range of each row; None if the rows have none of their own.
    lower: npt.NDArray[np.float64] | None = None
    upper: npt.NDArray[np.float64] | None = None


@_reader
def answer(reply: bytes) -> Answer:
    """Reads a ComputeResponse."""
    return _answer(reply, rows_field=3)


@_reader
def accumulated(reply: bytes) -> Answer | None:
    """Reads an AccumulateResponse; returns None if it is not final."""
    final = any(field == 3 and value for field, value in _fields(memoryview(reply)))
    return _answer(reply, rows_field=5) if final else None


def _answer(reply: bytes, rows_field: int) -> Answer:
    found = Answer(np.zeros(0, np.int64))
    for field, value in _fields(memoryview(reply)):
        if field == 1:
            _read_histogram(value, found)
        elif field == rows_field:
            _read_rows(value, found)
    return found


def _read_histogram(data: memoryview, found: Answer) -> None:
    for field, value in _fields(data):
        if field == 1:
            found.counts = _fixed64(value)
        elif field == 2:
            found.samples = operator.index(value)
        elif field in (3, 4, 8):
            name = {3: "below", 4: "above", 8: "nan"}[field]
            setattr(found, name, np.array([operator.index(value)]))
        elif field == 6:
            for inner, numbers in _fields(value):
                if inner == 9:
                    found.quantiles = _fixed64(numbers).view("<f8")


def _read_rows(data: memoryview, found: Answer) -> None:
    names = {3: "counts", 5: "below", 6: "above", 8: "nan"}
    reals = {17: "quantiles", 18: "lower", 19: "upper"}
    for field, value in _fields(data):
        if field in names:
            setattr(found, names[field], _varints(value))
        elif field in reals:
            setattr(found, reals[field], _fixed64(value).view("<f8"))


@dataclass
class Limits:
    """The part of DescribeResponse.Limits that this package uses."""

    payload_bytes: int = 0
    bins: int = 0
    quantiles: int = 0
    rows: int = 0
    reply_bytes: int = 0
    spec_bytes: int = 0


@_reader
def limits(reply: bytes) -> Limits:
    """Reads the limits in a DescribeResponse."""
    found = Limits()
    names = {1: "payload_bytes", 2: "bins", 9: "quantiles", 10: "rows", 11: "reply_bytes",
             12: "spec_bytes"}  # fmt: skip
    for field, value in _fields(memoryview(reply)):
        if field == 5:
            for inner, number in _fields(value):
                if inner in names:
                    setattr(found, names[inner], operator.index(number))
    for name, number in vars(found).items():
        if number < 1:
            raise BadReply(f"limits.{name} is {number}")
    return found


@dataclass
class Error:
    """The content of a histogram.v1.Error, except its code."""

    message: str = ""
    reason: str = ""
    field: str = ""
    limit: int = 0
    retry_after_ms: int | None = None


@_reader
def error(trailer: bytes) -> Error:
    """Reads an Error."""
    found = Error()
    for field, value in _fields(memoryview(trailer)):
        if field in (2, 3, 4):
            text = bytes(value).decode(errors="replace")
            setattr(found, {2: "message", 3: "reason", 4: "field"}[field], text)
        elif field == 5:
            found.limit = operator.index(value)
        elif field == 6:
            found.retry_after_ms = operator.index(value)
    return found
