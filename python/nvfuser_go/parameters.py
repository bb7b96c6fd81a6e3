"""The parameter structures of launches, compilations and schedules."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from nvfuser_go.enums import (
    DataType,
    MatmulCircularBufferingStrategy,
    MatmulTileRasterizationOrder,
    MmaMacro,
    ParallelType,
    SchedulerType,
)
from nvfuser_go.errors import InvalidArgument


@dataclass
class LaunchParams:
    """The sizes of a launch in threads and blocks; -1 leaves the choice to the compiler."""

    bdimx: int = -1
    bdimy: int = -1
    bdimz: int = -1
    gdimx: int = -1
    gdimy: int = -1
    gdimz: int = -1


@dataclass
class CompileParams:
    """How a kernel is compiled."""

    index_type: DataType | None = None
    maxrregcount: int = 255
    enable_magic_zero: bool = True
    enable_ptxas_verbose: bool = False
    device: Any = None
    include_paths: Sequence[str] = ()


@dataclass
class HeuristicParams:
    """What the heuristics of a scheduler chose.

    Hashed by what it holds, so it must not be changed while it is a key. Fields that this package's scheduler has no
    choice for change nothing in schedule().
    """

    lparams: LaunchParams = field(default_factory=LaunchParams)
    cparams: CompileParams = field(default_factory=CompileParams)
    scheduler_type: SchedulerType = SchedulerType.none

    def __hash__(self) -> int:
        return hash(repr(self))


@dataclass
class PointwiseParams(HeuristicParams):
    """The schedule of elementwise operations.

    What counts: lparams.bdimx, the threads of a block, unroll_factor_inner, the elements or vectors of a thread, and
    vectorization_factor, the elements of a vector.
    """

    __hash__ = HeuristicParams.__hash__

    scheduler_type: SchedulerType = SchedulerType.pointwise
    break_point: int = 0
    split_block: bool = False
    split_grid_y_dim: bool = False
    flip_grid_binding: bool = False
    vectorization_factor: int = 1
    unroll_factor_inner: int = 1
    unroll_factor_outer: int = 1


@dataclass
class ReductionParams(HeuristicParams):
    """The schedule of reductions: for the inner and outer reduced dimensions and the others, what runs them.

    What counts of a reduction: fastest_dim, whether the innermost dimension is reduced, and lparams.bdimx and bdimy,
    the threads along what is reduced and what is kept if it is, else along what is kept and what is reduced. Of
    persistent rows and columns: the threads, the elements of a vector and the steps of a thread that of_choice() fills
    in.
    """

    __hash__ = HeuristicParams.__hash__

    scheduler_type: SchedulerType = SchedulerType.reduction
    fastest_dim: bool = False
    persistent_kernel: bool = False
    project_persistent_buffers: bool = False
    schedule_3D: bool = False
    flip_grid: bool = False
    vectorize_inner_reduction: bool = False
    cross_block_inner_reduction: bool = False
    cross_grid_inner_reduction: bool = False
    unroll_factor_inner_reduction: int = 1
    unroll_factor_top_of_vectorization: int = 1
    batches_per_block_inner_reduction: int = 1
    pad_inner_reduction_to_warp: bool = False
    split_grid_dim_inner_reduction: bool = False
    block_dim_inner_reduction: ParallelType = ParallelType.serial
    grid_dim_inner_reduction: ParallelType = ParallelType.serial
    cross_block_outer_reduction: bool = False
    cross_grid_outer_reduction: bool = False
    batches_per_block_outer_reduction: int = 1
    unroll_factor_outer_reduction: int = 1
    split_grid_dim_outer_reduction: bool = False
    block_dim_outer_reduction: ParallelType = ParallelType.serial
    grid_dim_outer_reduction: ParallelType = ParallelType.serial
    multiple_reds_per_blk: bool = False
    vectorize_iter_dom: bool = False
    unroll_factor_iter_dom: int = 1
    split_grid_dim_iter_dom_inner: bool = False
    split_grid_dim_iter_dom_outer: bool = False
    block_dim_iter_dom: ParallelType = ParallelType.serial
    grid_dim_iter_dom: ParallelType = ParallelType.serial
    static_bdimx: bool = False
    static_bdimy: bool = False
    combined_inner_outer: bool = False
    tidx_for_outer_reduction: bool = False
    pad_outer_reduction_to_warp: bool = False
    vectorization_factor_outer: int = 1
    vectorization_factor_tmp_gmem_write: int = 1


@dataclass
class GemmTile:
    """The sizes of a tile of a matrix product."""

    m: int = 128
    n: int = 128
    k: int = 32


@dataclass
class MatMulTileOptions:
    """The tiles of a block and of a warp."""

    cta_tile: GemmTile = field(default_factory=GemmTile)
    warp_tile: GemmTile = field(default_factory=lambda: GemmTile(64, 64, 32))


@dataclass
class CircularBufferOptions:
    """How operands are buffered in shared memory."""

    circular_buffer_smem_write: bool = False
    circular_buffer_smem_read: bool = False
    smem_circular_buffer_stage: int = 2
    smem_circular_buffer_prefetch_gap: int = 1


@dataclass
class SupportedVectorization:
    """Elements in an access to each operand and the result."""

    a: int = 1
    b: int = 1
    epilogue: int = 1


@dataclass
class ClusterDims:
    """The size of a cluster in blocks."""

    m: int = 1
    n: int = 1


@dataclass
class MmaMacroEncode:
    """The parts of a matrix instruction's name."""

    arch: int = 0
    m: int = 0
    n: int = 0
    k: int = 0


@dataclass
class MatmulParams(HeuristicParams):
    """The schedule of a matrix product."""

    scheduler_type: SchedulerType = SchedulerType.matmul
    tile_sizes: MatMulTileOptions = field(default_factory=MatMulTileOptions)
    circular_buffer_options: CircularBufferOptions = field(default_factory=CircularBufferOptions)
    supported_vec_size: SupportedVectorization = field(default_factory=SupportedVectorization)
    cluster_dims: ClusterDims = field(default_factory=ClusterDims)
    mma_macro: MmaMacro = MmaMacro.none
    circular_buffering_strategy: MatmulCircularBufferingStrategy = MatmulCircularBufferingStrategy.Pipelined
    cta_order: MatmulTileRasterizationOrder = MatmulTileRasterizationOrder.row_major
    use_smem_epilogue: bool = False
    promote_prologue_smem_reuse: bool = False
    splitk_factor: int = 1
    grid_traversal_factor: int = 1
    async_gmem_load_operands: bool = False


# The parameters that count, by scheduler, with the fields of its choice that they are.
_COUNTING = {
    SchedulerType.pointwise: {"bdimx": "Threads", "unroll_factor_inner": "Unroll", "vectorization_factor": "Vector"},
    SchedulerType.reduction: {"fastest_dim": "Inner", "bdimx": "Lanes", "bdimy": "Rows"},
    SchedulerType.inner_persistent: {
        "bdimx": "Threads",
        "bdimy": "Rows",
        "unroll_factor_inner_reduction": "Vector",
        "batches_per_block_inner_reduction": "Steps",
    },
    SchedulerType.outer_persistent: {
        "bdimx": "Lanes",
        "bdimy": "Rows",
        "unroll_factor_iter_dom": "Vector",
        "batches_per_block_outer_reduction": "Steps",
    },
    SchedulerType.block_row: {
        "bdimx": "Threads",
        "bdimy": "Rows",
        "unroll_factor_inner_reduction": "Vector",
        "batches_per_block_inner_reduction": "Steps",
    },
    SchedulerType.inner_outer_persistent: {
        "bdimy": "Rows",
        "unroll_factor_inner_reduction": "Vector",
        "batches_per_block_inner_reduction": "Steps",
    },
}


def _place(params: HeuristicParams, name: str) -> Any:
    """What has the parameter called name: params, or its launch parameters."""
    return params if hasattr(params, name) else params.lparams


def of_choice(kind: SchedulerType, choice: dict[str, Any], inputs: list[Any]) -> HeuristicParams:
    """The structure that shows a scheduler's choice for inputs; `choice_of` and `inputs_like` are its inverses."""
    params: HeuristicParams
    if kind is SchedulerType.pointwise:
        params = PointwiseParams()
    else:
        params = ReductionParams(scheduler_type=kind, persistent_kernel=kind is not SchedulerType.reduction)
    for name, field_name in _COUNTING[kind].items():
        value = choice[field_name]
        setattr(_place(params, name), name, value if isinstance(value, bool) else max(value, 1))
    if kind is SchedulerType.reduction:
        inner, across = choice["Inner"], choice["Lanes" if choice["Inner"] else "Rows"] > 1
        params.cross_block_inner_reduction, params.cross_block_outer_reduction = inner and across, not inner and across  # type: ignore[attr-defined]
        several = choice["Blocks"] > 1
        params.cross_grid_inner_reduction, params.cross_grid_outer_reduction = inner and several, not inner and several  # type: ignore[attr-defined]
        params.multiple_reds_per_blk = choice["Rows" if inner else "Lanes"] > 1  # type: ignore[attr-defined]
    params._choice = choice  # type: ignore[attr-defined] # of the structure, not a parameter
    params._inputs = [_like(x) for x in inputs]  # type: ignore[attr-defined]
    return params


def choice_of(params: HeuristicParams) -> dict[str, Any]:
    """What a scheduler reads of params: the fields that the structure documents, and else what it chose.

    Raises InvalidArgument for a structure that no scheduler has.
    """
    counting = _COUNTING.get(params.scheduler_type)
    if counting is None or not isinstance(params, PointwiseParams | ReductionParams):
        raise InvalidArgument(f"schedule(): there is no scheduler for {type(params).__name__}")
    return getattr(params, "_choice", {}) | {f: getattr(_place(params, name), name) for name, f in counting.items()}


def inputs_like(params: HeuristicParams) -> list[Any]:
    """Inputs of the description for which params were computed, without their elements."""
    if not hasattr(params, "_inputs"):
        raise InvalidArgument("schedule(): the parameters must come from compute_heuristics(), which knows the inputs")
    return [x() if callable(x) else x for x in params._inputs]


def _like(x: Any) -> Any:
    """x, or for a tensor what makes one of its description, so that its memory is not held."""
    if not hasattr(x, "shape") or isinstance(x, int | float | complex):
        return x
    if not isinstance(x, torch.Tensor):
        x = torch.from_numpy(x)
    return functools.partial(torch.empty_strided, tuple(x.shape), tuple(x.stride()), dtype=x.dtype)
