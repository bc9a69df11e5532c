# SPDX-License-Identifier: Apache-2.0
"""Which slot each event of a section names (docs/reference/trace-format.md, "Slots"), by array operations.

The specification describes a machine that walks through the events with one stack per thread. Here the same is found by
*sources*: an event takes its slot either from the slot column or from an earlier event, which is

- for a named object, the birth that the code counts back to, among those of the thread or across all;
- for an allocation that pops its thread's stack, the event that pushed what it pops.

Whether an event pushes depends on the object's owner only, and owners follow from named births alone; so owners come first,
then the pushes that each pop takes are found as matching brackets are, and at last all slots follow their sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import ops

U64 = NDArray[np.uint64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

NOBODY = -1
_FROM_STACK = 0
_NAMED_OF_NOBODY, _NAMED_ACROSS, _NAMED_BIRTH_MIN = 1, 2, 3

# A row of a section fits into 16 bits and a level of a stack into 17, as sections have at most 65,536 rows.
_ROW_BITS = 16
_LEVEL_BITS = 17


class SlotCodingError(ValueError):
    """The three columns contradict one another or the ops; says what was expected."""


@dataclass(frozen=True)
class _Events:
    """Those events of a section that have a slot. All arrays have the shape (events with a slot,)."""

    op: NDArray[np.uint8]
    thread: Ints
    makes: Flags
    births_before: Ints
    birth_rows: Ints

    def births_by_thread(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """The rows of all births, thread by thread; and for each of `rows` where its thread's begin among them, and where
        they stand when it comes."""
        if self.thread.size and (self.thread == self.thread[0]).all():
            return self.birth_rows, np.zeros(rows.size, dtype=np.int64), self.births_before[rows]
        rank = np.unique(self.thread, return_inverse=True)[1].reshape(-1).astype(np.int64) << _ROW_BITS
        keys = np.sort(rank[self.birth_rows] | self.birth_rows)
        begins, stands = np.searchsorted(keys, rank[rows]), np.searchsorted(keys, rank[rows] | rows)
        return keys & ((1 << _ROW_BITS) - 1), begins, stands


def decode_slots(op: NDArray[np.uint8], thread: NDArray[np.uint32], code: U64, column: U64, across: U64) -> U64:
    """The slots of the events that have one, in order. op, thread and code: (events with a slot,), the code being that of
    a birth or that of a name; column and across: as stored."""
    makes = ops.OP_MAKES[op]
    born = ops.OP_LEAVES_OBJECT[op]
    events = _Events(op, thread.astype(np.int64), makes, np.cumsum(born) - born, np.flatnonzero(born))
    pops, nobody = makes & (code == _FROM_STACK), ~makes & (code == _NAMED_OF_NOBODY)
    # A birth that pops nothing names its slot, and so does a name that counts no birth.
    literal = np.where(makes, ~pops, code < _NAMED_ACROSS)

    source = np.arange(op.size, dtype=np.int64)
    _follow_names(events, code, across, source)
    rows, taken = _match_stack(events.thread, _pushes(events, nobody, source), pops)
    source[rows] = taken

    _expect_count("slot", column, int(np.count_nonzero(literal)))
    slots = np.zeros(op.size, dtype=np.uint64)
    slots[literal] = column
    followed: U64 = slots[_roots(source)]
    return followed


def _expect_count(name: str, column: U64, values: int) -> None:
    if column.size != values:
        raise SlotCodingError(f"expected {values} values in the {name} column, found {column.size}")


def _follow_names(events: _Events, code: U64, across: U64, source: Ints) -> None:
    """Point every event that names a birth at that birth."""
    others = np.flatnonzero(~events.makes & (code == _NAMED_ACROSS))
    _expect_count("across", across, others.size)
    source[others] = events.birth_rows[_counted_back(events.births_before[others], across)]
    own = np.flatnonzero(~events.makes & (code >= _NAMED_BIRTH_MIN))
    birth_rows, begins, stands = events.births_by_thread(own)
    back = code[own] - np.uint64(_NAMED_BIRTH_MIN)
    source[own] = birth_rows[begins + _counted_back(stands - begins, back)]


def _counted_back(births: Ints, back: U64) -> Ints:
    """Numbers of the births that lie so many back, of so many each."""
    beyond = back >= births.astype(np.uint64)
    if beyond.any():
        worst = int(np.argmax(beyond))
        raise SlotCodingError(f"expected a name among {int(births[worst])} births, found one {int(back[worst])} back")
    counted: Ints = births - 1 - back.astype(np.int64)
    return counted


def _pushes(events: _Events, nobody: Flags, source: Ints) -> Flags:
    """Which events push a slot: those that end an object of their own thread's. nobody: those that name one of nobody's."""
    owner = np.where(nobody, NOBODY, events.thread)
    pushes: Flags = ops.OP_ENDS[events.op] & (owner[_roots(source)] == events.thread)
    return pushes


def _match_stack(thread: Ints, pushes: Flags, pops: Flags) -> tuple[Ints, Ints]:
    """Rows that pop, and for each the row that pushed what it pops.

    On one level of one stack pushes and pops take turns, so once the rows are sorted by thread, level and order, the row
    before each pop is its push."""
    rows = np.flatnonzero(pushes | pops)
    if rows.size == 0:
        return rows, rows
    thread = thread[rows]
    rank = np.zeros(rows.size, dtype=np.uint64)
    if (thread != thread[0]).any():
        # A section has few threads, but their numbers may be large: ranks keep the sort key within 64 bits.
        rank = np.unique(thread, return_inverse=True)[1].reshape(-1).astype(np.uint64)
        rows = _sorted_rows(rank, rows)
        rank = np.sort(rank)
    step = np.where(pushes[rows], 1, -1)
    depth = np.cumsum(step)
    first = np.append(True, rank[1:] != rank[:-1])
    starts = np.flatnonzero(first)
    before_thread = np.repeat(depth[starts] - step[starts], np.diff(starts, append=rows.size))
    depth -= before_thread
    if depth.min() < 0:
        raise SlotCodingError("expected a slot on the stack that an allocation pops, found it empty")
    level = (depth + (step < 0)).astype(np.uint64)
    rows = _sorted_rows(rank << np.uint64(_LEVEL_BITS) | level, rows)
    popping = np.flatnonzero(pops[rows])
    return rows[popping], rows[popping - 1]


def _sorted_rows(key: U64, rows: Ints) -> Ints:
    """The rows by key and then by themselves. Sorting packed numbers is several times faster than a stable argsort."""
    packed = np.sort(key << np.uint64(_ROW_BITS) | rows.astype(np.uint64))
    result: Ints = (packed & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)
    return result


def _roots(source: Ints) -> NDArray[Any]:
    """Follow the sources of all rows to their ends; each round doubles the distance, so 16 rounds reach any."""
    while True:
        further = source[source]
        if np.array_equal(further, source):
            return source
        source = further


# ---- tokens ----

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
