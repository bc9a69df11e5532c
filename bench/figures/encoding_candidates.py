# SPDX-License-Identifier: Apache-2.0
"""Candidate encodings of a block's columns: each returns the bytes that it comes to under zstd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import zstandard
from encoding_blocks import THREAD, Block, Codes, Ints
from numpy.typing import NDArray

from heaptape import ops

STORED_BYTES_MAX = 24  # below that a frame costs more than it saves
TOKENS = 256

Squeeze = Callable[[bytes], int]


def zstd(level: int = 3, **parameters: int) -> Squeeze:
    """The bytes that something takes: compressed, or stored where that is shorter."""
    settings = zstandard.ZstdCompressionParameters.from_level(
        level, write_content_size=1, **parameters
    )
    compressor = zstandard.ZstdCompressor(compression_params=settings)

    def squeeze(raw: bytes) -> int:
        return (
            len(raw)
            if len(raw) < STORED_BYTES_MAX
            else min(len(raw), len(compressor.compress(raw)))
        )

    return squeeze


def planes(values: NDArray[np.integer], squeeze: Squeeze) -> int:
    """The lowest byte of every value, then the next, as wide as the largest needs."""
    if values.size == 0:
        return 0
    width = (int(values.max()).bit_length() + 7) // 8
    return (
        squeeze(values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes())
        if width
        else 0
    )


def varints(values: NDArray[np.integer], squeeze: Squeeze) -> int:
    """Seven bits a byte, the lowest first."""
    rest, parts = values.astype(np.uint64), []
    shape = (values.size, 10)
    out, used = np.zeros(shape, np.uint8), np.zeros(shape, np.bool_)
    going = np.ones(values.size, np.bool_)
    for place in range(10):
        more = rest >> np.uint64(7)
        out[:, place] = (rest & np.uint64(127)).astype(np.uint8) | ((more > 0) << 7).astype(
            np.uint8
        )
        used[:, place] = going
        going, rest = going & (more > 0), more
    parts.append(out[used])
    return squeeze(np.concatenate(parts).tobytes())


def differences(values: Ints, squeeze: Squeeze) -> int:
    """Plain or as zigzag differences, whichever is shorter."""
    step = np.diff(values, prepend=0)
    return min(planes(values, squeeze), planes((step << 1) ^ (step >> 63), squeeze))


def packed(values: Ints, bits: int, squeeze: Squeeze) -> int:
    """Values of so many bits, 8 / bits to a byte; what is beyond the largest, in planes."""
    top, per_byte = (1 << bits) - 1, 8 // bits
    short = np.minimum(values, top).astype(np.uint8)
    short = np.concatenate([short, np.zeros(-short.size % per_byte, np.uint8)]).reshape(
        -1, per_byte
    )
    together = np.zeros(short.shape[0], np.uint8)
    for place in range(per_byte):
        together |= short[:, place] << np.uint8(bits * place)
    return squeeze(together.tobytes()) + planes(values[values >= top] - top, squeeze)


def three_in_a_byte(values: Ints, squeeze: Squeeze) -> int:
    """Values below 5 and an escape, three to a byte in base 6."""
    short = np.minimum(values, 5)
    short = np.concatenate([short, np.zeros(-short.size % 3, np.int64)]).reshape(-1, 3)
    together = (short[:, 0] + 6 * short[:, 1] + 36 * short[:, 2]).astype(np.uint8)
    return squeeze(together.tobytes()) + planes(values[values >= 5] - 5, squeeze)


def buckets(values: Ints, steps: int, squeeze: Squeeze) -> int:
    """2^steps buckets an octave, in half a byte: up to 1 / 2^(steps + 1) of each value is lost."""
    exponent = np.maximum(np.floor(np.log2(np.maximum(values, 1))).astype(np.int64) - steps, 0)
    return packed((exponent << steps) + (values >> exponent), 4, squeeze)


def by_effect(block: Block, encode: Callable[[Ints], int]) -> int:
    """Times before events that end an object apart from the others."""
    ends = ops.OP_ENDS[block.op]
    return encode(block.gap[ends]) + encode(block.gap[~ends])


def less_the_least(block: Block, encode: Callable[[Ints], int]) -> int:
    """Times less the least that the event's op and the one before have: a call's own cost."""
    pair = block.op.astype(np.int64) * 256 + np.append(0, block.op[:-1])
    kinds, index = np.unique(pair, return_inverse=True)
    least = np.full(kinds.size, np.iinfo(np.int64).max)
    np.minimum.at(least, index, block.gap)
    return encode(block.gap - least[index]) + 2 * kinds.size


@dataclass(frozen=True)
class Parts:
    """What a block's events hold besides thread and time, one value per event."""

    op: Ints
    birth: Ints
    named: Ints
    size: Ints
    extra: Ints
    makes: NDArray[np.bool_]
    names: NDArray[np.bool_]
    sized: NDArray[np.bool_]
    has_extra: NDArray[np.bool_]
    across: Ints  # one per name by another thread's birth


def parts_of(block: Block, codes: Codes, way: str = THREAD) -> Parts:
    makes = ops.OP_MAKES[block.op]
    across = codes.across if way == THREAD else codes.across[:0]
    names = ops.OP_HAS_SLOT[block.op] & ~makes
    birth, named = np.zeros(block.rows, np.int64), np.zeros(block.rows, np.int64)
    birth[makes], named[names] = codes.birth, codes.named[way]
    return Parts(
        block.op.astype(np.int64),
        birth,
        named,
        block.size,
        block.extra,
        makes,
        names,
        ops.OP_HAS_SIZE[block.op],
        ops.OP_HAS_EXTRA[block.op],
        across,
    )


def separate(parts: Parts, squeeze: Squeeze) -> int:
    """A column each."""
    return (
        planes(parts.op, squeeze)
        + planes(parts.birth[parts.makes], squeeze)
        + planes(parts.named[parts.names], squeeze)
        + planes(parts.size[parts.sized], squeeze)
        + planes(parts.extra[parts.has_extra], squeeze)
        + planes(parts.across, squeeze)
    )


def size_dictionary(parts: Parts, squeeze: Squeeze) -> int:
    """A column each, but the 255 commonest sizes by number."""
    sizes = parts.size[parts.sized]
    known, index, count = np.unique(sizes, return_inverse=True, return_counts=True)
    rank = np.empty(known.size, np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(known.size)
    number = np.minimum(rank[index], 255)
    common = np.sort(known[rank < 255])
    return (
        separate(parts, squeeze)
        - planes(sizes, squeeze)
        + planes(number, squeeze)
        + planes(common, squeeze)
        + planes(sizes[number == 255], squeeze)
    )


def tokens(
    parts: Parts, fields: Sequence[str], squeeze: Squeeze, least: int = 16, most: int = TOKENS
) -> int:
    """The commonest combinations of op and what else is `fields` become tokens of a byte. The values
    of the other events follow in columns, as do all those that tokens never have."""
    field_values = [getattr(parts, name) for name in fields]
    pattern, index, count = _distinct([parts.op, *field_values])
    opens, open_index, _ = _distinct([parts.op, parts.birth])
    room = min(most - len(opens), int((count >= least).sum()))
    order = np.argsort(-count, kind="stable")
    rank = np.empty(count.size, np.int64)
    rank[order] = np.arange(count.size)
    is_open = rank[index] >= room
    used, open_number = np.unique(open_index[is_open], return_inverse=True)
    # Numbered by value, so that the list of tokens compresses.
    by_value = np.lexsort(pattern[order[:room]].T[::-1])
    number = np.empty(room, np.int64)
    number[by_value] = np.arange(room)
    token = np.empty(parts.op.size, np.int64)
    token[~is_open] = number[rank[index][~is_open]]
    token[is_open] = room + open_number
    bytes_ = squeeze(token.astype(np.uint8).tobytes()) + planes(parts.across, squeeze)
    listed = pattern[order[:room]][by_value]
    bytes_ += sum(planes(listed[:, i], squeeze) for i in range(listed.shape[1]))
    bytes_ += planes(opens[used][:, 0], squeeze) + planes(opens[used][:, 1], squeeze)
    for name, has in (("named", parts.names), ("size", parts.sized), ("extra", parts.has_extra)):
        bytes_ += planes(getattr(parts, name)[has & is_open if name in fields else has], squeeze)
    # An open token has its birth code; without births in tokens they are a column.
    return bytes_ if "birth" in fields else bytes_ + planes(parts.birth[parts.makes], squeeze)


def _distinct(columns: Sequence[Ints]) -> tuple[NDArray[np.int64], Ints, Ints]:
    """Distinct rows, for each row the number of its like, and how many are alike."""
    mixed = np.zeros(columns[0].size, np.uint64)
    for column in columns:
        mixed = (mixed * np.uint64(0x9E3779B97F4A7C15) + column.astype(np.uint64)) * np.uint64(
            0xD6E8FEB86659FD93
        )
        mixed ^= mixed >> np.uint64(29)
    _, first, index, count = np.unique(
        mixed, return_index=True, return_inverse=True, return_counts=True
    )
    return np.stack(columns, 1)[first], index, count
