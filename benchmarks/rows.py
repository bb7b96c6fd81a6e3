"""The rows of the benchmark on a GPU, by family: each row is one entry of ROWS."""

import rows_indices
import rows_norms
import rows_pointwise
import rows_reductions
import rows_resizes
import rows_scans
import rows_transposes
from row import Row

FAMILIES = (rows_pointwise, rows_reductions, rows_norms, rows_transposes, rows_resizes, rows_indices, rows_scans)
ROWS: list[Row] = [row for family in FAMILIES for row in family.ROWS]

# Enough to see that everything works, and the shapes that decide most.
QUICK = (
    r"^(relu bf16|silu|bias \+ gelu bf16|cast bf16|bias \+ gelu, width 4098|NHWC|x \+ y, 1 MiB"
    r"|softmax bf16 8192x8192|softmax bf16 2048x131072|cross entropy bf16 4096|sum of 2\^28|outer sum bf16 32768"
    r"|layer norm bf16 16384x4096|layer norm backward bf16 16384x4096|batch norm bf16 NHWC 64x256x56x56)"
)
