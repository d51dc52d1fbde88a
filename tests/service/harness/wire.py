"""Writes protobuf's wire format by hand, for requests that no generated code would make."""

import struct

VARINT, FIXED64, LENGTH, START_GROUP, END_GROUP, FIXED32 = range(6)


def varint(value):
    """`value` modulo 2^64 as a varint."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def long_varint(value, length):
    """`value` as a varint of exactly `length` bytes (padded with continuation bytes)."""
    return bytes((value >> 7 * i) & 0x7F | (0x80 if i + 1 < length else 0) for i in range(length))


def tag(field, wire_type):
    return varint(field << 3 | wire_type)


def uint(field, value):
    return tag(field, VARINT) + varint(value)


def double(field, value):
    return tag(field, FIXED64) + struct.pack("<d", value)


def fixed64(field, value):
    return tag(field, FIXED64) + struct.pack("<Q", value)


def fixed32(field, value):
    return tag(field, FIXED32) + struct.pack("<I", value)


def length_delimited(field, data):
    return tag(field, LENGTH) + varint(len(data)) + data


def packed_doubles(field, values):
    return length_delimited(field, struct.pack(f"<{len(values)}d", *values))


def packed_uints(field, values):
    return length_delimited(field, b"".join(varint(value) for value in values))


def group(field, content=b""):
    return tag(field, START_GROUP) + content + tag(field, END_GROUP)


def spec(*parts):
    """A request whose field 1 is a Spec of `parts` (Compute and Accumulate alike)."""
    return length_delimited(1, b"".join(parts))


def binning(*parts):
    """A Spec's binning."""
    return length_delimited(2, b"".join(parts))


def payload(data):
    """A request's payload or chunk."""
    return length_delimited(15, data)
