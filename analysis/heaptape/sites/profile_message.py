"""pprof's message Profile (profile.proto): the fields that are written here, by number."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "perftools.profiles"
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


def _profile_class() -> Any:
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"int": kinds.TYPE_INT64, "number": kinds.TYPE_UINT64, "bool": kinds.TYPE_BOOL, "string": kinds.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _MESSAGES.items():
        made = file.message_type.add(name=message)
        for name, (number, repeated_kind) in fields.items():
            kind = repeated_kind.removesuffix("*")
            label = kinds.LABEL_OPTIONAL if kind == repeated_kind else kinds.LABEL_REPEATED
            field = made.field.add(name=name, number=number, label=label, type=scalars.get(kind, kinds.TYPE_MESSAGE))
            if kind not in scalars:
                field.type_name = f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Profile"))


Profile = _profile_class()
