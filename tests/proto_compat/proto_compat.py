#!/usr/bin/env python3
"""Says how histogram.proto breaks clients of the last release (the newest tag v* before this commit).

  proto_compat.py [--protoc PROTOC]   1 if something breaks; 77 if there is no release

What may not change: packages, the names of messages, enums and services; a field's number, name
(JSON), type, label, presence and oneof; a message's field numbers (a removed one would have to be
reserved, and even that takes away what clients send: it is refused); enum values; methods, their
types and their streaming. New messages, fields, enum values and methods are welcome, with three
exceptions that look new but are not: a field may not take a number that the release reserved; an
existing field may not join a oneof; and a new field may not be `required`.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROTO = "histogram/v1/histogram.proto"
NO_RELEASE = 77  # ctest shows the test as skipped
Field = descriptor_pb2.FieldDescriptorProto


def compile_proto(protoc, proto):
    """The FileDescriptorSet of one .proto file."""
    proto = pathlib.Path(proto).resolve()
    base = proto.parents[2] if proto.parts[-3:-1] == ("histogram", "v1") else proto.parent
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.binpb"
        subprocess.run(
            [protoc, f"--proto_path={base}", "--include_imports", f"--descriptor_set_out={output}",
             str(proto)], check=True)
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())


def type_name(field):
    if field.type_name:
        return field.type_name.lstrip(".")
    return Field.Type.Name(field.type).removeprefix("TYPE_").lower()


def oneof_name(message, field):
    """The oneof that the author wrote; the hidden one of a proto3 `optional` is not one."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return message.oneof_decl[field.oneof_index].name


def is_packed(field):
    return field.options.packed if field.options.HasField("packed") else None


def compare_field(where, old_message, old, new_message, new):
    problems = []

    def expect_same(what, before, after):
        if before != after:
            problems.append(f"{where}: {what} changed from {before} to {after}")

    expect_same("name", old.name, new.name)
    expect_same("JSON name", old.json_name, new.json_name)
    expect_same("type", type_name(old), type_name(new))
    expect_same("label", Field.Label.Name(old.label), Field.Label.Name(new.label))
    expect_same("presence (optional)", old.proto3_optional, new.proto3_optional)
    expect_same("oneof", oneof_name(old_message, old), oneof_name(new_message, new))
    expect_same("packing", is_packed(old), is_packed(new))
    return problems


def is_reserved(message, number):
    return any(span.start <= number < span.end for span in message.reserved_range)


def compare_message(where, old, new):
    problems = []
    new_fields = {field.number: field for field in new.field}
    for field in old.field:
        name = f"{where}.{field.name} = {field.number}"
        if field.number in new_fields:
            problems += compare_field(name, old, field, new, new_fields[field.number])
        else:
            moved = [other.number for other in new.field if other.name == field.name]
            problems.append(f"{name}: renumbered to {moved[0]}" if moved else f"{name}: removed")
    old_numbers = {field.number for field in old.field}
    for field in new.field:
        if field.number in old_numbers:
            continue
        name = f"{where}.{field.name} = {field.number}"
        if is_reserved(old, field.number):
            problems.append(f"{name}: takes a reserved number")
        if field.name in old.reserved_name:
            problems.append(f"{name}: takes a reserved name")
        if field.label == Field.LABEL_REQUIRED:
            problems.append(f"{name}: new fields cannot be required")
    for span in old.reserved_range:
        for number in range(span.start, min(span.end, span.start + 1000)):
            if not is_reserved(new, number) and number not in new_fields:
                problems.append(f"{where}: number {number} is no longer reserved")
    problems += compare_named(where, "message", old.nested_type, new.nested_type, compare_message)
    problems += compare_named(where, "enum", old.enum_type, new.enum_type, compare_enum)
    return problems


def compare_enum(where, old, new):
    problems = []
    new_values = {value.name: value.number for value in new.value}
    for value in old.value:
        if value.name not in new_values:
            problems.append(f"{where}.{value.name} = {value.number}: removed")
        elif new_values[value.name] != value.number:
            problems.append(
                f"{where}.{value.name}: renumbered from {value.number} to {new_values[value.name]}")
    return problems


def compare_method(where, old, new):
    problems = []
    for what, before, after in (
            ("request type", old.input_type, new.input_type),
            ("response type", old.output_type, new.output_type),
            ("client streaming", old.client_streaming, new.client_streaming),
            ("server streaming", old.server_streaming, new.server_streaming)):
        if before != after:
            problems.append(f"{where}: {what} changed from {before} to {after}")
    return problems


def compare_service(where, old, new):
    return compare_named(where, "method", old.method, new.method, compare_method)


def compare_named(where, kind, old, new, compare):
    problems = []
    found = {item.name: item for item in new}
    for item in old:
        name = f"{where}.{item.name}" if where else item.name
        if item.name in found:
            problems += compare(name, item, found[item.name])
        else:
            problems.append(f"{kind} {name}: removed")
    return problems


def compare_sets(old, new):
    """What breaks, one sentence each; empty when the change is compatible."""
    problems = []
    new_files = {file.name: file for file in new.file}
    for file in old.file:
        if file.name not in new_files:
            problems.append(f"file {file.name}: removed")
            continue
        other = new_files[file.name]
        if file.package != other.package:
            problems.append(f"file {file.name}: package changed from {file.package} to {other.package}")
        if (file.syntax or "proto2") != (other.syntax or "proto2"):
            problems.append(f"file {file.name}: syntax changed")
        problems += compare_named(
            file.package, "message", file.message_type, other.message_type, compare_message)
        problems += compare_named(
            file.package, "enum", file.enum_type, other.enum_type, compare_enum)
        problems += compare_named(
            file.package, "service", file.service, other.service, compare_service)
    return problems


def last_release():
    """The newest tag v* of an ancestor of HEAD, or None."""
    done = subprocess.run(["git", "-C", ROOT, "describe", "--tags", "--abbrev=0", "--match=v*"],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protoc", default=os.environ.get("PROTOC", "protoc"))
    options = parser.parse_args()
    tag = last_release()
    if tag is None:
        print("there is no release yet (no tag v*): nothing to be compatible with")
        return NO_RELEASE
    with tempfile.TemporaryDirectory() as folder:
        released = pathlib.Path(folder) / PROTO
        released.parent.mkdir(parents=True)
        released.write_bytes(subprocess.run(["git", "-C", ROOT, "show", f"{tag}:proto/{PROTO}"],
                                            check=True, capture_output=True).stdout)
        problems = compare_sets(compile_proto(options.protoc, released),
                                compile_proto(options.protoc, ROOT / "proto" / PROTO))
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} incompatible changes: clients of {tag} would break")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
