"""Requests as bytes: what protobuf would read but this server must refuse, what nobody can read, and
what is valid though few encoders write it. The fuzzers' seed corpus is made from them too.
"""

from harness import wire

TABLE = list(range(256))
SPEC_OF_NOTHING = wire.length_delimited(1, b"")


def in_binning(field, content=b""):
    return wire.spec(wire.binning(wire.length_delimited(field, content)))


# What protobuf itself takes for an unknown field: a field number that nobody declared, or a declared
# one with another wire type. name: (request bytes, number to be named).
UNKNOWN_FIELDS = {
    "request, varint": (wire.uint(2, 1), 2),
    "request, payload twice removed": (wire.length_delimited(16, b"abc"), 16),
    "request, fixed64": (wire.fixed64(14, 1), 14),
    "request, fixed32": (wire.fixed32(99, 1), 99),
    "request, group": (wire.group(7, wire.uint(1, 1)), 7),
    "request, largest number": (wire.uint(2**29 - 1, 0), 2**29 - 1),
    "request, after the payload": (wire.payload(b"abc") + wire.uint(3, 0), 3),
    "request, before the payload": (wire.uint(3, 0) + wire.payload(b"abc"), 3),
    "spec": (wire.spec(wire.uint(10, 1)), 10),
    "rows": (wire.spec(wire.length_delimited(7, wire.uint(5, 1))), 5),
    "windows": (wire.spec(wire.length_delimited(7, wire.length_delimited(1, wire.uint(1, 1) + wire.uint(3, 1)))), 3),
    "spec, second one": (SPEC_OF_NOTHING + wire.spec(wire.uint(100, 1)), 100),
    "binning": (in_binning(5, b"\x08\x01"), 5),
    "even": (in_binning(1, wire.uint(1, 4) + wire.uint(6, 1)), 6),
    "edges": (in_binning(2, wire.packed_doubles(1, [1, 2]) + wire.uint(2, 1)), 2),
    "alphabet": (
        in_binning(3, wire.uint(1, 1) + wire.uint(2, 1) + wire.uint(3, 1) + wire.uint(4, 1)), 4),
    "byte table": (in_binning(
        4, wire.uint(1, 4) + wire.packed_uints(2, TABLE) + wire.uint(3, 1)), 3),
    "spec as a varint": (wire.uint(1, 1), 1),
    "spec as fixed64": (wire.fixed64(1, 1), 1),
    "payload as a varint": (wire.uint(15, 1), 15),
    "payload as fixed32": (wire.fixed32(15, 1), 15),
    "payload as a group": (wire.group(15), 15),
    "sample type as bytes": (wire.spec(wire.length_delimited(1, b"\x01")), 1),
    "binning as a varint": (wire.spec(wire.uint(2, 1)), 2),
    "statistics as bytes": (wire.spec(wire.length_delimited(3, b"\x01")), 3),
    "quantiles as a varint": (wire.spec(wire.uint(4, 1)), 4),
    "quantiles as fixed32": (wire.spec(wire.fixed32(4, 1)), 4),
    "bin count as bytes": (in_binning(1, wire.length_delimited(1, b"\x01")), 1),
    "bin count as fixed32": (in_binning(1, wire.fixed32(1, 4)), 1),
    "lower as a varint": (in_binning(1, wire.uint(1, 4) + wire.uint(2, 4)), 2),
    "lower as fixed32": (in_binning(1, wire.uint(1, 4) + wire.fixed32(2, 4)), 2),
    "edges as varints": (in_binning(2, wire.uint(1, 4) + wire.uint(1, 5)), 1),
    "bin of byte as fixed64": (in_binning(4, wire.uint(1, 4) + wire.fixed64(2, 4)), 2),
}

# What no protobuf parser accepts.
MALFORMED = {
    "tag cut": b"\x80",
    "payload cut": wire.payload(b"abcdef")[:-1],
    "payload without its bytes": b"\x7a\x05",
    "payload without its length": b"\x7a",
    "length of payload cut": b"\x7a\x85",
    "length beyond 64 bits": b"\x7a" + b"\xff" * 10 + b"\x01",
    "length of all ones": b"\x7a" + b"\xff" * 9 + b"\x01",
    "length of six bytes": b"\x7a" + wire.long_varint(3, 6) + b"abc",
    "length of a second spec of nine bytes": SPEC_OF_NOTHING + b"\x0a" + wire.long_varint(0, 9),
    "length of 4 GiB": b"\x7a\xff\xff\xff\xff\x0f" + b"x" * 20,
    "length of 2 GiB": b"\x7a\x80\x80\x80\x80\x08" + b"x" * 20,
    "spec longer than the message": b"\x0a\x10\x18\x01",
    "field number zero": b"\x00\x01",
    "field number zero, bytes": b"\x02\x00",
    "wire type six": b"\x0e\x01",
    "wire type seven": b"\x0f\x01",
    "end of a group that never began": wire.tag(7, wire.END_GROUP),
    "group without an end": wire.tag(7, wire.START_GROUP) + wire.uint(1, 1),
    "group ended by another": wire.tag(7, wire.START_GROUP) + wire.tag(8, wire.END_GROUP),
    "tag beyond 32 bits": b"\x88\x80\x80\x80\x80\x01\x00",
    "text": b"GET / HTTP/1.1\r\n\r\n",
    "all ones": b"\xff" * 64,
    "deeply nested groups": wire.tag(7, wire.START_GROUP) * 5000,
}

# The same, but only for who looks into the spec.
MALFORMED_SPECS = {
    "inner length beyond the spec": wire.length_delimited(1, b"\x12\x09\x0a\x02\x08\x04"),
    "even beyond the binning": wire.spec(wire.length_delimited(2, b"\x0a\x08\x08\x04")),
    "double cut": in_binning(1, b"\x11\x00\x00\x00"),
    "packed doubles of seven bytes": in_binning(2, wire.length_delimited(1, b"\x00" * 7)),
    "packed varints cut": in_binning(4, wire.uint(1, 4) + wire.length_delimited(2, b"\x01\x80")),
    "varint of eleven bytes": wire.spec(b"\x18" + b"\x80" * 10 + b"\x01"),
    "varint cut in the spec": wire.spec(b"\x18\x80"),
    "deeply nested groups in the spec": wire.spec(wire.tag(7, wire.START_GROUP) * 5000),
}


# Valid messages that few encoders make.
def even_of(*parts):
    return wire.spec(wire.binning(wire.length_delimited(1, b"".join(parts))))


UNUSUAL = {
    "payload first": wire.payload(b"abc") + even_of(wire.uint(1, 7)),
    "payload twice": wire.payload(b"first") + wire.payload(b"last one"),
    "payload twice, last empty": wire.payload(b"first") + wire.payload(b""),
    "spec around the payload": even_of(wire.uint(1, 7)) + wire.payload(b"abc") + wire.spec(
        wire.uint(3, 1)),
    "binnings merged": even_of(wire.uint(1, 7)) + even_of(
        wire.double(2, 90), wire.double(3, 120)) + wire.payload(b"abcdefgh"),
    "binnings merged in one spec": wire.spec(
        wire.binning(wire.length_delimited(1, wire.uint(1, 9))),
        wire.binning(wire.length_delimited(1, wire.uint(1, 7)))) + wire.payload(b"abc"),
    "another binning replaces the first": even_of(wire.uint(1, 0)) + in_binning(
        3, wire.uint(1, 97) + wire.uint(2, 26) + wire.uint(3, 6)) + wire.payload(b"abc xyz"),
    "edges merged": in_binning(2, wire.packed_doubles(1, [1, 50])) + in_binning(
        2, wire.double(1, 100) + wire.double(1, 101.5)) + wire.payload(b"abcdef"),
    "edges unpacked": in_binning(
        2, b"".join(wire.double(1, edge) for edge in (0, 98, 99))) + wire.payload(b"abc"),
    "table unpacked": in_binning(4, wire.uint(1, 4) + b"".join(
        wire.uint(2, value % 5) for value in TABLE)) + wire.payload(b"abcde"),
    "table in pieces": in_binning(4, wire.packed_uints(2, [1] * 100) + wire.uint(
        2, 3) + wire.uint(1, 4) + wire.packed_uints(2, [2] * 155)) + wire.payload(b"abc\x64"),
    "quantiles in pieces": wire.spec(wire.packed_doubles(4, [0.5, 1]), wire.double(4, 0)) +
                           wire.payload(b"abc"),
    "empty packed fields": in_binning(2, wire.packed_doubles(1, []) + wire.packed_doubles(
        1, [0, 100])) + wire.spec(wire.packed_doubles(4, [])) + wire.payload(b"abc"),
    "bool of 2": wire.spec(wire.uint(3, 2)) + wire.payload(b"abc"),
    "bool of 2^63": wire.spec(wire.uint(3, 2**63)) + wire.payload(b"abc"),
    "bool cleared again": wire.spec(wire.uint(3, 1), wire.uint(3, 0)) + wire.payload(b"abc"),
    "bin count beyond 32 bits is cut": even_of(wire.uint(1, 2**32 + 7)) + wire.payload(b"abc"),
    "varints of ten bytes": even_of(b"\x08" + wire.long_varint(7, 10)) + wire.payload(b"abc"),
    "tags of five bytes": wire.long_varint(15 << 3 | 2, 5) + wire.varint(3) + b"abc",
    "length of five bytes": b"\x7a" + wire.long_varint(3, 5) + b"abc",
    "sample type and zeros": wire.spec(wire.uint(1, 1), wire.uint(5, 0)) + wire.payload(b"abc"),
    "empty message": b"",
    "spec of nothing": SPEC_OF_NOTHING,
    "binning of nothing": wire.spec(wire.binning()) + wire.payload(b"abc"),
    "bool cleared by a second spec": wire.spec(wire.uint(3, 1)) + wire.spec(wire.uint(3, 0)) +
                                     wire.payload(b"abc"),
    "bin count cleared by a second spec": even_of(wire.uint(1, 7)) + even_of(
        wire.uint(1, 0), wire.uint(1, 3)) + wire.payload(b"abc"),
    "negative zero lower": even_of(wire.uint(1, 7), wire.double(2, -0.0), wire.double(3, 255)) +
                           wire.payload(b"\x00abc"),
    "payload last of three": wire.payload(b"1") + wire.payload(b"22" * 50_000) +
                             wire.payload(b"333"),
}
