# SPDX-License-Identifier: Apache-2.0
"""Writes a Parquet file of many columns, or reads it by 24 threads into memory.

    parquet_columns.py write FILE
    parquet_columns.py read FILE

Arrow has a mimalloc of its own: ARROW_DEFAULT_MEMORY_POOL=system makes it call malloc.
"""

from __future__ import annotations

import sys

COLUMNS, ROWS, ROWS_OF_A_GROUP, THREADS = 200, 100_000, 25_000, 24


def _write(path: str) -> None:
    import numpy
    import pyarrow
    from pyarrow import parquet

    numbers = numpy.random.default_rng(1)
    columns = {f"c{i}": numbers.random(ROWS) if i % 2 else numbers.integers(0, 1000, ROWS) for i in range(COLUMNS)}
    parquet.write_table(pyarrow.table(columns), path, row_group_size=ROWS_OF_A_GROUP)


def _read(path: str) -> None:
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(THREADS)
    table = parquet.read_table(path)
    print(table.num_rows, table.num_columns, pyarrow.default_memory_pool().backend_name)


if __name__ == "__main__":
    {"write": _write, "read": _read}[sys.argv[1]](sys.argv[2])
