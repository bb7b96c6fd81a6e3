"""The cases of the op sweep: arguments for every row of the op table, by the kind and the name of its parameters."""

from collections.abc import Callable

from sweep_case import Case
from sweep_elementwise import casts, elementwise
from sweep_indexing import (
    accumulations,
    embeddings,
    gathers,
    groupings,
    index_selects,
    scatters,
    selects,
    sums_of_parts,
    sums_of_slices,
    triangles,
)
from sweep_products import attention_gradients, attentions, grouped, linears, matmuls
from sweep_reductions import by_parameters, reductions
from sweep_views import (
    broadcasts,
    broadcasts_in_dim,
    cats,
    expands,
    fulls,
    iotas,
    pads,
    permutes,
    reshapes,
    sizes,
    slices,
    squeezes,
    stride_orders,
)

from nvfuser_go import DataType

GENERATORS: dict[str, Callable] = {
    "cast": casts,
    "sum": reductions,
    "prod": reductions,
    "max": reductions,
    "min": reductions,
    "var": reductions,
    "var_mean": reductions,
    "welford": reductions,
    "_max_exp_sum": reductions,
    "cumsum": by_parameters,
    "cumprod": by_parameters,
    "cummax": by_parameters,
    "cummin": by_parameters,
    "argsort": by_parameters,
    "topk": by_parameters,
    "broadcast": broadcasts,
    "broadcast_in_dim": broadcasts_in_dim,
    "expand": expands,
    "squeeze": squeezes,
    "reshape": reshapes,
    "permute": permutes,
    "stride_order": stride_orders,
    "slice": slices,
    "pad": pads,
    "cat": cats,
    "size": sizes,
    "shape": sizes,
    "select": selects,
    "index_select": index_selects,
    "gather": gathers,
    "take_along_axis": gathers,
    "scatter": scatters,
    "index_put_accumulate": accumulations,
    "_group_positions": groupings,
    "_sum_parts": sums_of_parts,
    "_sum_slices": sums_of_slices,
    "embedding_fwd": embeddings,
    "triu": triangles,
    "full": fulls,
    "iota": iotas,
    "matmul": matmuls,
    "linear": linears,
    "grouped_mm": grouped,
    "sdpfa_fwd": attentions,
    "sdpfa_bwd": attention_gradients,
}


def cases(row: dict, dtype: DataType) -> list[Case]:
    """The cases of a row for an element type; empty if the sweep does not know the row."""
    if row["name"] in GENERATORS:
        return GENERATORS[row["name"]](row, dtype)
    if row["class"] == "elementwise" or all(p["kind"] == "operand" for p in row["overloads"][-1]):
        return elementwise(row, dtype)
    return []
