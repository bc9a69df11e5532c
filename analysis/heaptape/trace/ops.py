# SPDX-License-Identifier: Apache-2.0
"""The functions of a trace and which values their events carry (docs/reference/trace-format.md, "Events sections").

An op byte holds the function in its low five bits and the variant in its high three. The lookup tables below are indexed
by the whole byte, so that a column of ops is classified by one array access.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

FUNCTION_BITS = 5
FUNCTION_MASK = (1 << FUNCTION_BITS) - 1


class Variant(IntEnum):
    """How a call came out, where that changes what it means."""

    PLAIN = 0
    NULL = 1
    FAILED = 2
    RELEASED = 3
    FOREIGN = 4


FUNCTIONS: dict[int, str] = {
    1: "malloc",
    2: "calloc",
    3: "realloc",
    4: "reallocarray",
    5: "free",
    6: "posix_memalign",
    7: "aligned_alloc",
    8: "memalign",
    9: "valloc",
    10: "pvalloc",
    11: "free_sized",
    12: "free_aligned_sized",
    13: "cfree",
    14: "new",
    15: "new[]",
    16: "new_aligned",
    17: "new[]_aligned",
    18: "delete",
    19: "delete[]",
    20: "delete_sized",
    21: "delete[]_sized",
    22: "delete_aligned",
    23: "delete[]_aligned",
    24: "delete_sized_aligned",
    25: "delete[]_sized_aligned",
    26: "malloc_usable_size",
    28: "madvise",
    29: "control",
    30: "drop",
    31: "inherit",
}
"""Names as `ops` in a trace's totals and `calls` in the results use them."""
PSEUDO_FUNCTIONS = frozenset({28, 29, 30, 31})
INHERIT = 31
"""The op of a block that was live when the trace began: such events come first."""
ADVISE, CONTROL = 28, 29
"""The ops of madvise of bytes of a block, and of calls that control an allocator: no calls of the malloc family."""
QUERY = 26
"""The op of a call that asks for a block's size and changes nothing."""
COUNTED_FUNCTIONS = frozenset({2, 4})
"""Functions whose extra multiplies the size (calloc, reallocarray)."""

_ALLOCATES = {"plain": "SZ", "failed": "Z"}
_ALLOCATES_EXTRA = {"plain": "SZX", "failed": "ZX"}
_FREES = {"plain": "S", "null": "", "foreign": ""}

_CARRIES: dict[int, dict[str, str]] = {
    **{f: _ALLOCATES for f in (1, 9, 10, 14, 15)},
    **{f: _ALLOCATES_EXTRA for f in (2, 6, 7, 8, 16, 17)},
    3: {"plain": "SZ", "null": "SZ", "failed": "Z", "released": "SZ", "foreign": "SZ"},
    4: {"plain": "SZX", "null": "SZX", "failed": "ZX", "released": "SZX", "foreign": "SZX"},
    **{f: _FREES for f in (5, 13, 18, 19)},
    **{f: {"plain": "SZ", "null": "Z", "foreign": "Z"} for f in (11, 20, 21)},
    **{f: {"plain": "SX", "null": "X", "foreign": "X"} for f in (22, 23)},
    **{f: {"plain": "SZX", "null": "ZX", "foreign": "ZX"} for f in (12, 24, 25)},
    QUERY: {"plain": "S"},
    ADVISE: {"plain": "SZX"},
    CONTROL: {"plain": "ZX"},
    30: {"plain": "S"},
    31: {"plain": "SZ"},
}


def op_byte(function: int, variant: int = Variant.PLAIN) -> int:
    """The byte that stands for a function and a variant in the op column."""
    return function | variant << FUNCTION_BITS


def _table(letter: str | None) -> NDArray[np.bool_]:
    """256 flags: whether an op carries `letter`, or, for None, whether the op exists at all."""
    table = np.zeros(256, dtype=np.bool_)
    for function, variants in _CARRIES.items():
        for variant, carried in variants.items():
            wanted = letter is None or letter in carried
            table[op_byte(function, Variant[variant.upper()])] = wanted
    return table


OP_EXISTS = _table(None)
OP_HAS_SLOT = _table("S")
OP_HAS_SIZE = _table("Z")
OP_HAS_EXTRA = _table("X")

OP_IS_CALL = OP_EXISTS.copy()
OP_IS_CALL[list(PSEUDO_FUNCTIONS)] = False

_REALLOCS = (3, 4)
_ALLOCATIONS = (1, 2, 6, 7, 8, 9, 10, 14, 15, 16, 17)


def _among(*pairs: tuple[int, Variant]) -> NDArray[np.bool_]:
    table = np.zeros(256, dtype=np.bool_)
    table[[op_byte(function, variant) for function, variant in pairs]] = True
    return table


OP_HAS_SITE = np.zeros(256, dtype=np.bool_)
"""Events of allocations and reallocs, however they came out: they may have a call site."""
for _op in np.flatnonzero(OP_EXISTS):
    OP_HAS_SITE[_op] = int(_op) & FUNCTION_MASK in (*_ALLOCATIONS, *_REALLOCS, INHERIT)

OP_MAKES = _among(
    *((function, Variant.PLAIN) for function in (*_ALLOCATIONS, 31)),
    *((function, variant) for function in _REALLOCS for variant in (Variant.NULL, Variant.FOREIGN)),
)
"""Events that make an object where there was none."""

OP_REBORN = _among(*((function, Variant.PLAIN) for function in _REALLOCS))
"""Events that give an object a new size and a new birth."""

OP_CHANGES = OP_HAS_SLOT.copy()
OP_CHANGES[[QUERY, ADVISE]] = False
"""Events after which their slot holds something else than before: all that have one but queries and madvise."""

OP_ENDS = OP_CHANGES & ~OP_MAKES & ~OP_REBORN
"""Events that end an object: frees, reallocs that released, drop."""

OP_LEAVES_OBJECT = OP_MAKES | OP_REBORN
"""Events after which their slot holds an object."""

OP_MULTIPLIES = np.zeros(256, dtype=np.bool_)
for _op in np.flatnonzero(OP_EXISTS):
    OP_MULTIPLIES[_op] = int(_op) & FUNCTION_MASK in COUNTED_FUNCTIONS

for _array in (OP_EXISTS, OP_HAS_SLOT, OP_HAS_SIZE, OP_HAS_EXTRA, OP_HAS_SITE, OP_IS_CALL, OP_MAKES, OP_REBORN, OP_CHANGES, OP_ENDS,
               OP_LEAVES_OBJECT, OP_MULTIPLIES):
    _array.setflags(write=False)
