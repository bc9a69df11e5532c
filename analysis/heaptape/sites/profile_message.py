# SPDX-License-Identifier: Apache-2.0
"""Messages of protobuf, made of the fields that are written here, by number; and pprof's message Profile (profile.proto)."""

from __future__ import annotations

from typing import Any

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ModuleNotFoundError as error:  # the package's own name differs from the module's
    raise ModuleNotFoundError("no protobuf", name="protobuf") from error

_MESSAGES = {
    "Profile": {"sample_type": (1, "ValueType*"), "sample": (2, "Sample*"), "mapping": (3, "Mapping*"), "location": (4, "Location*"),
                "function": (5, "Function*"), "string_table": (6, "string*"), "duration_nanos": (10, "int"), "comment": (13, "int*"),
                "default_sample_type": (14, "int")},
    "ValueType": {"type": (1, "int"), "unit": (2, "int")},
    "Sample": {"location_id": (1, "number*"), "value": (2, "int*")},
    "Mapping": {"id": (1, "number"), "filename": (5, "int"), "build_id": (6, "int"), "has_functions": (7, "bool"),
                "has_inline_frames": (10, "bool")},
    "Location": {"id": (1, "number"), "mapping_id": (2, "number"), "address": (3, "number"), "line": (4, "Line*")},
    "Line": {"function_id": (1, "number"), "line": (2, "int")},
    "Function": {"id": (1, "number"), "name": (2, "int"), "system_name": (3, "int"), "filename": (4, "int")},
}
"""Type by field: * is repeated; int is int64, number uint64."""


def message_class(package: str, messages: dict[str, dict[str, tuple[int, str]]], root: str, proto3: bool = True) -> Any:
    """The class of a message; `messages` as above. Without proto3 a field that is set to 0 is there."""
    kinds = descriptor_pb2.FieldDescriptorProto
    # On the wire an enumeration is a number.
    scalars = {"int": kinds.TYPE_INT64, "number": kinds.TYPE_UINT64, "number32": kinds.TYPE_UINT32, "enum": kinds.TYPE_INT32, "bool": kinds.TYPE_BOOL,
               "string": kinds.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name=f"{root}.proto", package=package, syntax="proto3" if proto3 else "proto2")
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for name, (number, repeated_kind) in fields.items():
            kind = repeated_kind.removesuffix("*")
            label = kinds.LABEL_OPTIONAL if kind == repeated_kind else kinds.LABEL_REPEATED
            field = made.field.add(name=name, number=number, label=label, type=scalars.get(kind, kinds.TYPE_MESSAGE))
            if kind not in scalars:
                field.type_name = f".{package}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{root}"))


Profile = message_class("perftools.profiles", _MESSAGES, "Profile")
