"""What makes an axis, and tags for isinstance() on expressions."""

from typing import Any

from nvfuser_go import _C


class AxisTransform:
    """What makes an axis from others: a Split, a Merge or a Resize."""

    def __init__(self, inner: bool, sources: list[Any], results: list[Any], factor: list[Any]) -> None:
        self._inner, self._sources, self._results = inner, sources, results
        self._factor = factor[0] if factor else None

    def input(self, i: int) -> Any:
        """The axis i that it takes."""
        return self._sources[i]

    def output(self, i: int) -> Any:
        """The axis i that it makes."""
        return self._results[i]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._results == other._results

    def __hash__(self) -> int:
        return hash(tuple(self._results))

    def __repr__(self) -> str:
        names = ", ".join(map(str, self._results))
        return f"{names} = {type(self).__name__}({', '.join(map(str, self._sources))})"


class Split(AxisTransform):
    """One axis in two: the outer one and the inner one."""

    @property
    def outer(self) -> Any:
        """The outer axis that is made."""
        return self._results[0]

    @property
    def inner(self) -> Any:
        """The inner axis that is made."""
        return self._results[1]

    @property
    def factor(self) -> Any:
        """The extent of the inner axis if inner_split, else of the outer one."""
        return self._factor

    @property
    def inner_split(self) -> bool:
        """Whether the inner axis has the factor as its extent."""
        return self._inner


class Merge(AxisTransform):
    """Two axes in one, in which the inner one runs fastest."""

    @property
    def outer(self) -> Any:
        """The outer axis that is merged."""
        return self._sources[0]

    @property
    def inner(self) -> Any:
        """The inner axis that is merged."""
        return self._sources[1]

    @property
    def out(self) -> Any:
        """The axis that is made."""
        return self._results[0]


class Resize(AxisTransform):
    """An axis that is padded or sliced."""


def definition(axis: Any) -> AxisTransform | None:
    """What makes an axis, as IterDomain.definition(); None for one that an expression or an input has of its own."""
    made = axis._transform()
    if made is None:
        return None
    kind, inner, *rest = made
    return (Split, Merge, Resize)[kind](bool(inner), *rest)


class _Tag(type):
    """The type of classes that stand for the expressions of one operation."""

    operation: str

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _C.Expr) and value.name() == cls.operation


class BroadcastOp(metaclass=_Tag):
    """isinstance(tv.definition(), BroadcastOp): whether it is a broadcast."""

    operation = "broadcast"


class SqueezeOp(metaclass=_Tag):
    """isinstance(tv.definition(), SqueezeOp): whether it removes dimensions of size 1."""

    operation = "squeeze"


class ReshapeOp(metaclass=_Tag):
    """isinstance(tv.definition(), ReshapeOp): whether it is a reshape."""

    operation = "reshape"


_C.IterDomain.definition = definition
