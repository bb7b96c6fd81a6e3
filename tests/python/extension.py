"""Fusions made by the compiled module _C alone."""

from nvfuser_go import _C, DataType

FLOAT, INT, BOOL = DataType.Float.value, DataType.Int.value, DataType.Bool.value


def matrix(fusion, dtype=FLOAT):
    """A dense input of two dimensions of any size."""
    return fusion.define_tensor([-1, -1], [True, True], dtype, False, None)


def built(define, dtype=FLOAT, inputs=1):
    """The executor of a fusion with these inputs, whose output is what `define` returns."""
    fusion = _C.Fusion()
    fusion.add_output(define(*(matrix(fusion, dtype) for _ in range(inputs))))
    return _C.executor(fusion)
