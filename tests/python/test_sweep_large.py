"""Rows of the op table on tensors of many tiles: what is split among tiles and threads, and what is left over."""

import pytest
from sweep_case import Case, accepted
from sweep_elementwise import Operands
from sweep_indexing import indices
from sweep_reductions import by_parameters
from sweep_values import LAYOUTS, NARROW, Tensor
from test_sweep import RANDOM, TABLE, run, show

from nvfuser_go import DataType

pytestmark = pytest.mark.usefixtures("one_thread")

D = DataType
DTYPES = [D.Float, D.Half, D.Int32, D.Bool, D.Double, D.ComplexFloat]

SLICES = 301  # that are added

WIDE, TALL, DEEP = (3, 20_011), (20_011, 3), (7, 33, 129)


def views(dtype: DataType) -> dict[str, list[dict]]:
    def t(*shape: int, special: bool | str = True) -> Tensor:
        return Tensor(shape, dtype, special=special)

    odd, cube = t(129, 1031), t(33, 130, 17)
    return {
        "broadcast": [{"arg": odd, "is_broadcast_dim": [True, False, True, False]}],
        "broadcast_in_dim": [
            {"arg": t(1031), "shape": [129, 1031], "broadcast_dims": [1]},
            {"arg": t(129), "shape": [129, 1031], "broadcast_dims": [0]},
            {"arg": t(33, 1, 17), "shape": [33, 130, 17], "broadcast_dims": [0, 1, 2]},
        ],
        "expand": [{"arg": t(129, 1), "shape": [129, 1031]}],
        "squeeze": [{"arg": t(129, 1, 1031), "dims": [1]}],
        "reshape": [
            {"arg": cube, "new_shape": [33 * 130, 17]},
            {"arg": cube, "new_shape": [11, 3 * 26, 5 * 17]},
            {"arg": t(1024, 96), "new_shape": [96, 1024]},
        ],
        "permute": [{"arg": odd, "dims": [1, 0]}, {"arg": cube, "dims": [2, 0, 1]}, {"arg": cube, "dims": [1, 0, 2]}],
        "stride_order": [{"arg": odd, "stride_order": [0, 1]}],
        "slice": [
            {"arg": odd, "start_indices": [1, 3], "end_indices": [128, 1030]},
            {"arg": cube, "start_indices": [0, 5, 0], "end_indices": [33, 127, 16]},
        ],
        "pad": [{"arg": odd, "pad_widths": [3, 5, 1, 0]}, {"arg": odd, "pad_widths": [-3, 5, 2, -7]}],
        "cat": [
            {"tensors": [odd, t(7, 1031), odd], "dim": 0},
            {"tensors": [odd, t(129, 1), t(129, 1000)], "dim": 1},
        ],
        "triu": [{"arg": t(300, 301), "diagonal": 2}],
        "full": [{"shape": [129, 1031], "fill_value": 1, "dtype": dtype}],
        "iota": [{"length": 100_003, "start": 1, "step": 3, "dtype": dtype}],
        "select": [{"arg": odd, "index": 77, "dim": 0}, {"arg": odd, "index": 1030, "dim": 1}],
        "index_select": [
            {"arg": odd, "index": indices((1000,), 129), "dim": 0},
            {"arg": odd, "index": indices((999,), 1031), "dim": 1},
        ],
        "gather": [
            {"arg": odd, "index": indices((129, 500), 1031), "dim": 1},
            {"arg": odd, "index": indices((500, 1000), 129), "dim": 0},
        ],
        "take_along_axis": [
            {"arg": odd, "index": indices((129, 500), 1031), "dim": 1},
            {"arg": odd, "index": indices((1, 500), 1031), "dim": 1},
        ],
        "scatter": [
            {
                "arg": odd,
                "index": Tensor((129, 500), D.Int, indices((129, 500), 1031, distinct=True).values, layout="dense"),
                "src": t(129, 500),
                "dim": 1,
            }
        ],
        "embedding_fwd": [{"input": indices((50, 40), 129), "weight": odd}],
        "index_put_accumulate": [{"acc": odd, "index": indices((SLICES,), 129), "value": t(SLICES, 1031)}],
        "_group_positions": [{"index": indices((100_003,), 1000), "size": 1000}],
        "_sum_slices": [
            {
                "acc": odd,
                "order": indices((SLICES,), SLICES, distinct=True),
                "begin": Tensor((130,), D.Int, [i * SLICES // 129 for i in range(130)]),
                "value": t(SLICES, 1031, special=False),  # the largest numbers cancel in another order
                "parts": Tensor((SLICES // 64, 1031), D.Float if dtype in NARROW else dtype, special=False),
            }
        ],
        "_sum_parts": [
            {
                "index": Tensor((SLICES,), D.Int, [min(i // 100, 40) for i in range(SLICES)]),
                "order": Tensor((SLICES,), D.Int, list(range(SLICES))),
                "value": t(SLICES, 1031, special=False),
                "size": 50,
            }
        ],
        "matmul": [
            {"arg1": t(130, 257, special=False), "arg2": t(257, 131, special=False)},
            {"arg1": t(3, 65, 64, special=False), "arg2": t(64, 129, special=False)},
        ],
        "linear": [
            {"arg1": t(130, 257, special=False), "arg2": t(131, 257, special=False), "bias": t(131, special=False)}
        ],
    }


def by_shapes(row: dict, dtype: DataType) -> list[Case]:
    shapes = {
        "sort": [(3, 2011), (2011, 3), DEEP],
        "prod": [(3, 101), (101, 3), (7, 33, 5)],  # larger ones overflow, each order of factors in its own way
        "cumprod": [(3, 101), (101, 3), (7, 33, 5)],
    }.get(row["name"] if "prod" in row["name"] else row["class"], [WIDE, TALL, DEEP])
    return by_parameters(row, dtype, shapes)


def large_cases(row: dict, dtype: DataType) -> list[Case]:
    name = row["name"]
    if name == "cast":
        targets = [D.Float, D.Half, D.BFloat16, D.Double] if dtype is not D.ComplexFloat else [D.ComplexDouble]
        return [Case({"arg": Tensor((67, 1031), dtype), "dtype": to}, ulps=1) for to in targets]
    if row["class"] == "elementwise" or name == "addcmul":
        operands = Operands(row, tame=dtype is D.ComplexFloat)
        count = len(operands.names)
        out = [operands.case([(67, 1031)] * count, [dtype] * count)]
        if count > 1:
            shapes = [[(67, 1), (1, 1031), (67, 1031)][i % 3] for i in range(count)]
            out.append(operands.case(shapes, [dtype] * count, layouts=False))
        return out
    if name in ("index_put_accumulate", "_group_positions", "_sum_parts", "_sum_slices"):
        return [Case(args, length=SLICES + 1) for args in views(dtype)[name]]
    if row["class"] in ("reduction", "scan", "sort") or name in ("var", "var_mean"):
        return by_shapes(row, dtype)
    if name in views(dtype):
        length = 257 * 16 if row["class"] == "contraction" else 1
        return [Case(args, length=length) for args in views(dtype)[name]]
    return []


SMALL_ONLY = RANDOM | {"size", "shape", "grouped_mm", "sdpfa_fwd", "sdpfa_bwd"}


@pytest.mark.parametrize("name", [n for n in TABLE if n not in SMALL_ONLY])
def test_large(name: str) -> None:
    row = TABLE[name]
    wrong = []
    taken = [d for d in DTYPES if d in accepted(row)]
    for dtype in taken if row["class"] == "elementwise" else taken[:3]:
        cases = large_cases(row, dtype)
        assert cases
        for i, case in enumerate(cases):
            for k, layout in enumerate(LAYOUTS if case.layouts else LAYOUTS[:1]):
                problem = run(row, case, layout, (i + k) % 2 == 0)
                if problem:
                    wrong.append(f"{dtype} {layout} {show(case.args)[:200]}: {problem}")
    assert not wrong, f"{len(wrong)} cases are wrong:\n" + "\n".join(wrong[:10])
