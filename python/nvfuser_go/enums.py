"""The enumerations of the interface."""

from enum import Enum


class _Named(Enum):
    """An enumeration whose members print as Python source."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


class DataType(_Named):
    """An element type. The value is its number in the compiled core."""

    Null = 0
    Bool = 1
    Int32 = 2
    Int = 3
    UInt64 = 4
    Index = 5
    Half = 6
    BFloat16 = 7
    Float = 8
    Double = 9
    Float8_e4m3fn = 10
    Float8_e5m2 = 11
    Float8_e8m0fnu = 12
    Float4_e2m1fn = 13
    Float4_e2m1fn_x2 = 14
    ComplexFloat = 15
    ComplexDouble = 16


# The attribute of torch that is the same type, by DataType; for Index, that of the elements in memory.
TORCH_NAMES = {
    DataType.Bool: "bool",
    DataType.Int32: "int32",
    DataType.Int: "int64",
    DataType.UInt64: "uint64",
    DataType.Index: "int64",
    DataType.Half: "float16",
    DataType.BFloat16: "bfloat16",
    DataType.Float: "float32",
    DataType.Double: "float64",
    DataType.Float8_e4m3fn: "float8_e4m3fn",
    DataType.Float8_e5m2: "float8_e5m2",
    DataType.Float8_e8m0fnu: "float8_e8m0fnu",
    DataType.Float4_e2m1fn_x2: "float4_e2m1fn_x2",
    DataType.ComplexFloat: "complex64",
    DataType.ComplexDouble: "complex128",
}


def _enum(name: str, members: str, doc: str) -> type[_Named]:
    made = _Named(name, members, module=__name__, qualname=name, start=0)
    made.__doc__ = doc
    return made


ParallelType = _enum(
    "ParallelType",
    "mesh_x mesh_y mesh_z grid_x grid_y grid_z block_x block_y block_z stream serial unroll unswitch vectorize mma tma",
    "What runs the iterations of an axis.",
)
SchedulerType = _enum(
    "SchedulerType",
    "none no_op pointwise matmul reduction inner_persistent inner_outer_persistent outer_persistent transpose expr_eval"
    " resize block_row",
    "The kind of a segment's schedule.",
)
MemoryType = _enum("MemoryType", "local shared global tensor symmetric", "Where a tensor lives inside a kernel.")
CacheOp = _enum(
    "CacheOp", "unspecified all_levels streaming global evict_first evict_last", "The cache policy of a copy."
)
LoadStoreOpType = _enum("LoadStoreOpType", "set load_matrix cp_async tma", "The instruction of a copy.")
IdMappingMode = _enum("IdMappingMode", "exact almost_exact broadcast permissive loop", "Which axes count as one.")
CommunicatorBackend = _enum("CommunicatorBackend", "nccl ucc cuda", "The library that moves data between devices.")
MatmulTilingStrategy = _enum("MatmulTilingStrategy", "OneTilePerCTA DistributeTilesAcrossSMs", "How tiles meet blocks.")
MatmulBufferingLoopLevel = _enum("MatmulBufferingLoopLevel", "CTATiles WarpTiles", "The loop that is buffered.")
MatmulCircularBufferingStrategy = _enum(
    "MatmulCircularBufferingStrategy", "Pipelined WarpSpecialized", "Who fills the buffers."
)
MatmulTileRasterizationOrder = _enum("MatmulTileRasterizationOrder", "column_major row_major", "The order of tiles.")
MmaMacro = _enum("MmaMacro", "none", "The matrix instruction.")
