#!/usr/bin/env python3
"""Says how histogram.proto breaks clients of the last release (the newest tag v* before this commit).

  proto_compat.py [--protoc PROTOC]   1 if something breaks; 77 if there is no release

What the release says of a file, a message, a field's number, an enum's value or a method still holds, and
what it reserved is reserved: a removed field would take away what clients send. New messages, fields, enum
values and methods are welcome.
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


def field_facts(message, field):
    """What a client relies on, by the field's number or name."""
    # The hidden oneof of a proto3 `optional` is none that the author wrote.
    in_oneof = field.HasField("oneof_index") and not field.proto3_optional
    return (field.name, f"json_name = {field.json_name}", field.type_name or Field.Type.Name(field.type),
            Field.Label.Name(field.label), f"optional = {field.proto3_optional}",
            f"oneof = {message.oneof_decl[field.oneof_index].name if in_oneof else None}",
            f"packed = {field.options.packed if field.options.HasField('packed') else None}")


def message_facts(where, message):
    yield where, "message"
    for field in message.field:
        yield f"{where}, number {field.number}", field_facts(message, field)
    for span in message.reserved_range:
        for number in range(span.start, min(span.end, span.start + 1000)):
            yield f"{where}, number {number}", "reserved"
    for name in message.reserved_name:
        yield f"{where}, name {name}", "reserved"
    for nested in message.nested_type:
        yield from message_facts(f"{where}.{nested.name}", nested)
    for enum in message.enum_type:
        yield from enum_facts(f"{where}.{enum.name}", enum)


def enum_facts(where, enum):
    yield where, "enum"
    for value in enum.value:
        yield f"{where}.{value.name}", value.number


def facts_of(files):
    """All that the files say, as a value for each place."""
    facts = {}
    for file in files.file:
        facts[file.name] = f"package {file.package}, {file.syntax}"
        for message in file.message_type:
            facts.update(message_facts(f"{file.package}.{message.name}", message))
        for enum in file.enum_type:
            facts.update(enum_facts(f"{file.package}.{enum.name}", enum))
        for service in file.service:
            for method in service.method:
                facts[f"{file.package}.{service.name}.{method.name}"] = (
                    method.input_type, method.output_type, f"client streaming = {method.client_streaming}",
                    f"server streaming = {method.server_streaming}")
    return facts


def compare_sets(old, new):
    """What breaks, one sentence each; empty when the change is compatible."""
    now = facts_of(new)
    return [f"{where}: was {before}, is {now.get(where, 'not there')}"
            for where, before in facts_of(old).items() if now.get(where) != before]


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
