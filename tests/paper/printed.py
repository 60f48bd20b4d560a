# Copyright 2026 The vaswani_transformer authors.
# SPDX-License-Identifier: Apache-2.0
"""Table 3 as the paper prints it; an empty cell of the sizes and of the training has the value of
base.
"""

_TABLE_3 = """
row  | N | d_model | d_ff | h  | d_k | d_v | P_drop | eps_ls | steps  | PPL  | BLEU | params
base | 6 | 512     | 2048 | 8  | 64  | 64  | 0.1    | 0.1    | 100000 | 4.92 | 25.8 | 65
A1   |   |         |      | 1  | 512 | 512 |        |        |        | 5.29 | 24.9 |
A2   |   |         |      | 4  | 128 | 128 |        |        |        | 5.00 | 25.5 |
A3   |   |         |      | 16 | 32  | 32  |        |        |        | 4.91 | 25.8 |
A4   |   |         |      | 32 | 16  | 16  |        |        |        | 5.01 | 25.4 |
B1   |   |         |      |    | 16  |     |        |        |        | 5.16 | 25.1 | 58
B2   |   |         |      |    | 32  |     |        |        |        | 5.01 | 25.4 | 60
C1   | 2 |         |      |    |     |     |        |        |        | 6.11 | 23.7 | 36
C2   | 4 |         |      |    |     |     |        |        |        | 5.19 | 25.3 | 50
C3   | 8 |         |      |    |     |     |        |        |        | 4.88 | 25.5 | 80
C4   |   | 256     |      |    | 32  | 32  |        |        |        | 5.75 | 24.5 | 28
C5   |   | 1024    |      |    | 128 | 128 |        |        |        | 4.66 | 26.0 | 168
C6   |   |         | 1024 |    |     |     |        |        |        | 5.12 | 25.4 | 53
C7   |   |         | 4096 |    |     |     |        |        |        | 4.75 | 26.2 | 90
D1   |   |         |      |    |     |     | 0.0    |        |        | 5.77 | 24.6 |
D2   |   |         |      |    |     |     | 0.2    |        |        | 4.95 | 25.5 |
D3   |   |         |      |    |     |     |        | 0.0    |        | 4.67 | 25.3 |
D4   |   |         |      |    |     |     |        | 0.2    |        | 5.47 | 25.7 |
E    |   |         |      |    |     |     |        |        |        | 4.92 | 25.7 |
big  | 6 | 1024    | 4096 | 16 |     |     | 0.3    |        | 300000 | 4.33 | 26.4 | 213
"""
_RESULTS = ("PPL", "BLEU", "params")


def _read_table() -> dict[str, dict[str, float | None]]:
    header, *rows = (
        [cell.strip() for cell in line.split("|")] for line in _TABLE_3.strip().splitlines()
    )
    table: dict[str, dict[str, float | None]] = {}
    for name, *cells in rows:
        values = dict(
            zip(header[1:], (float(cell) if cell else None for cell in cells), strict=True)
        )
        base = table.get("base", values)
        table[name] = {
            column: base[column] if value is None and column not in _RESULTS else value
            for column, value in values.items()
        }
    return table


TABLE_3 = _read_table()  # row E has learned positions instead of sinusoids
