# SPDX-License-Identifier: Apache-2.0
"""What the tokens of an events section say of its events (docs/reference/trace-format.md, "Tokens")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import ops

U64 = NDArray[np.uint64]

TOKENS_MAX = 256
_BIRTH_CODE_MAX = 1
JOINED_BEFORE, JOINED_AFTER = 1, 2


class TokenError(ValueError):
    """The token columns contradict one another or the ops; says what was expected."""


@dataclass(frozen=True)
class Tokens:
    """Per event: its op, whether its token is open, and what a whole token says, 0 elsewhere. All of shape (rows,).

    code, though, is in open tokens too where the event makes an object."""

    op: NDArray[np.uint8]
    open: NDArray[np.bool_]
    code: U64
    size: U64
    extra: U64
    joined: U64


def read_tokens(rows: int, token: U64, op: U64, code: U64, size: U64, extra: U64, joined: U64) -> Tokens:
    """Find the token of every event. token: (rows,); op, code and joined: (tokens,); size and extra: (whole tokens,)."""
    expected = (("token", token, rows), ("token code", code, op.size), ("token extra", extra, size.size),
                ("joined", joined, op.size))
    for name, column, values in expected:
        if column.size != values:
            raise TokenError(f"expected {values} values in the {name} column, found {column.size}")
    if not size.size <= op.size <= TOKENS_MAX:
        raise TokenError(f"expected at most {TOKENS_MAX} tokens, found {op.size} with {size.size} sizes")
    if token.size and int(token.max()) >= op.size:
        raise TokenError(f"expected tokens below {op.size}, found {int(token.max())}")
    whole = np.arange(op.size) < size.size
    sizes, extras = _padded(size, op.size), _padded(extra, op.size)
    ops_of_tokens = _checked(op, whole, code, sizes, extras)
    _check_joined(ops_of_tokens, joined)
    index = token.astype(np.intp)
    codes = np.where(whole | ops.OP_MAKES[ops_of_tokens], code, np.uint64(0))
    return Tokens(ops_of_tokens[index], ~whole[index], codes[index], sizes[index], extras[index], joined[index])


def _check_joined(op: NDArray[Any], joined: U64) -> None:
    before, after = joined & np.uint64(JOINED_BEFORE) != 0, joined & np.uint64(JOINED_AFTER) != 0
    wrong = (joined > (JOINED_BEFORE | JOINED_AFTER)) | (joined != 0) & ~ops.OP_HAS_SLOT[op]
    if (wrong | before & ops.OP_MAKES[op] | after & ops.OP_ENDS[op]).any():
        raise TokenError("expected queries joined to events that have their object")


def _padded(values: U64, count: int) -> U64:
    padded = np.zeros(count, dtype=np.uint64)
    padded[: values.size] = values
    return padded


def _checked(op: U64, whole: NDArray[np.bool_], code: U64, size: U64, extra: U64) -> NDArray[Any]:
    """The ops of the tokens, once it is sure that these exist and have the values that they need."""
    unknown = (op > 255) | ~ops.OP_EXISTS[op & np.uint64(255)]
    if unknown.any():
        raise TokenError(f"expected known ops, found {int(op[unknown][0])}")
    known = op.astype(np.uint8)
    if (ops.OP_MAKES[known] & (code > _BIRTH_CODE_MAX)).any():
        raise TokenError(f"expected birth codes 0 and 1, found {int(code[ops.OP_MAKES[known]].max())}")
    needless = (code != 0) & ~ops.OP_HAS_SLOT[known]
    needless |= (size != 0) & ~ops.OP_HAS_SIZE[known] | (extra != 0) & ~ops.OP_HAS_EXTRA[known]
    if (whole & needless).any():
        raise TokenError("expected tokens with the values that their op has, found others")
    return known
