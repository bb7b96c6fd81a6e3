"""Which axes of tensors are mapped to each other: the `idm` module of nvFuser's interface.

An IdModel looks at a fusion as it is scheduled when the graph is built; schedule calls after that do not show in it.
"""

from typing import Any

from nvfuser_go import _C
from nvfuser_go.enums import IdMappingMode
from nvfuser_go.errors import InvalidType
from nvfuser_go.fusion import Fusion


def _check(function: str, *axes: Any) -> None:
    for axis in axes:
        if not isinstance(axis, _C.IterDomain):
            raise InvalidType(f"{function}(): an axis must be an IterDomain, got {axis!r}")


class DisjointValSets:
    """The sets of axes that a graph maps to each other."""

    def __init__(self, graph: "ValGraph") -> None:
        self._graph = graph

    def strict_are_mapped(self, a: Any, b: Any) -> bool:
        """Whether the two axes are mapped.

        Raises InvalidType for what is no axis of the fusion, InvalidArgument for an axis that was made after the graph.
        """
        _check("strict_are_mapped", a, b)
        return _C.graph_mapped(self._graph._handle, a, b)


class ValGraph:
    """A graph of axes in the sense of one IdMappingMode. Made by IdModel; used by one thread at a time."""

    def __init__(self, fusion: Fusion, mode: IdMappingMode) -> None:
        self._handle = _C.graph(fusion._core, mode.name)

    def __del__(self) -> None:
        if hasattr(self, "_handle") and _C is not None:
            _C.graph_release(self._handle)

    @property
    def disjoint_val_sets(self) -> DisjointValSets:
        """The sets of mapped axes."""
        return DisjointValSets(self)

    def map_vals(self, v0: Any, v1: Any) -> None:
        """Maps two axes, and in the exact and almost exact graphs what follows.

        There equal splits and merges of mapped axes have mapped results. Raises as strict_are_mapped.
        """
        _check("map_vals", v0, v1)
        _C.graph_join(self._handle, v0, v1)


class IdModel:
    """Answers which axes correspond, for the schedule that the fusion has when a graph is built.

    exact: axes of one index and extent. almost_exact: the same where extents of 1 are looked through. loop: axes that
    run in one loop. permissive: an axis of a tensor and one of a tensor that is computed from it, which correspond if
    broadcasts are looked through. The last is answered edge by edge and is not transitive: strict_are_mapped is True if
    some expression maps the two, in either direction, and two axes that meet in a broadcast are not mapped.

    build_graphs, allow_self_mapping and validate are accepted and change nothing: graphs are built when they are asked
    for, and always checked.
    """

    def __init__(
        self,
        fusion: Fusion,
        build_graphs: bool = False,
        allow_self_mapping: bool = True,
        validate: bool = False,
    ) -> None:
        if not isinstance(fusion, Fusion):
            raise InvalidType(f"IdModel(): fusion must be a Fusion, got {fusion!r}")
        self._fusion = fusion
        self._graphs: dict[IdMappingMode, ValGraph] = {}

    def maybe_build_graph(self, mode: IdMappingMode) -> ValGraph:
        """The graph of `mode`, built at the first call.

        Raises Unsupported for IdMappingMode.broadcast, of which the permissive graph answers what there is, and for a
        schedule whose axes cannot be mapped.
        """
        if not isinstance(mode, IdMappingMode):
            raise InvalidType(f"maybe_build_graph(): mode must be an IdMappingMode, got {mode!r}")
        if mode not in self._graphs:
            self._graphs[mode] = ValGraph(self._fusion, mode)
        return self._graphs[mode]
