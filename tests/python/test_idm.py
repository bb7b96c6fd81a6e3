"""The queries of idm, and what makes axes and tensors."""

import gc

import pytest

from nvfuser_go import (
    BroadcastOp,
    FusionDefinition,
    IdMappingMode,
    InvalidArgument,
    InvalidType,
    Merge,
    ParallelType,
    ReshapeOp,
    Split,
    SqueezeOp,
    Unsupported,
    idm,
)


@pytest.fixture
def c():
    class Chain:
        with FusionDefinition() as fd:
            x = fd.define_tensor([8, 16], True)
            e = fd.ops.exp(x)
            s = fd.ops.sum(e, dims=[1])
            b = fd.ops.broadcast(s, [False, True])
            y = fd.ops.sub(e, b)
            fd.add_output(y)

    return Chain


def mapped(fusion, mode, a, b) -> bool:
    sets = idm.IdModel(fusion).maybe_build_graph(mode).disjoint_val_sets
    assert sets.strict_are_mapped(a, b) == sets.strict_are_mapped(b, a)
    return sets.strict_are_mapped(a, b)


def test_exact(c):
    for built in (False, True):  # before and after the fusion is scheduled
        assert mapped(c.fd.fusion, IdMappingMode.exact, c.e.axis(0), c.y.axis(0))
        assert not mapped(c.fd.fusion, IdMappingMode.exact, c.e.axis(0), c.y.axis(1))
        assert not mapped(c.fd.fusion, IdMappingMode.exact, c.b.axis(1), c.y.axis(1))
        assert mapped(c.fd.fusion, IdMappingMode.exact, c.e.axis(1), c.s.axis(1))
        if not built:
            c.e.split(1, 4)
            assert not mapped(c.fd.fusion, IdMappingMode.exact, c.e.axis(1), c.y.axis(1))
            c.fd.sched.transform_like(c.e)


def test_almost_exact(c):
    c.e.split(0, 8)  # an outer part of extent 1
    assert mapped(c.fd.fusion, IdMappingMode.almost_exact, c.e.axis(1), c.y.axis(0))
    assert not mapped(c.fd.fusion, IdMappingMode.exact, c.e.axis(1), c.y.axis(0))


def test_loop(c):
    assert not mapped(c.fd.fusion, IdMappingMode.loop, c.e.axis(0), c.y.axis(0))
    c.fd.sched.inline_at(c.y, 1)
    assert mapped(c.fd.fusion, IdMappingMode.loop, c.e.axis(0), c.y.axis(0))
    assert not mapped(c.fd.fusion, IdMappingMode.loop, c.e.axis(1), c.y.axis(1))


def test_permissive_is_answered_by_neighbours(c):
    assert mapped(c.fd.fusion, IdMappingMode.permissive, c.b.axis(1), c.y.axis(1))
    assert mapped(c.fd.fusion, IdMappingMode.permissive, c.b.axis(0), c.y.axis(0))
    assert not mapped(c.fd.fusion, IdMappingMode.permissive, c.b.axis(0), c.y.axis(1))
    assert not mapped(c.fd.fusion, IdMappingMode.permissive, c.b.axis(1), c.e.axis(1))  # they meet in y


def test_broadcast_is_refused(c):
    with pytest.raises(Unsupported, match="permissive looks through broadcasts"):
        idm.IdModel(c.fd.fusion).maybe_build_graph(IdMappingMode.broadcast)


def test_map_vals():
    with FusionDefinition() as fd:
        x, y = fd.define_tensor([8], True), fd.define_tensor([8], True)
        a, b = fd.ops.neg(x), fd.ops.exp(y)
        fd.add_output(a)
        fd.add_output(b)
    a.split(0, 2)
    b.split(0, 2)
    model = idm.IdModel(fd.fusion, build_graphs=False, allow_self_mapping=True, validate=False)
    graph = model.maybe_build_graph(IdMappingMode.exact)
    assert model.maybe_build_graph(IdMappingMode.exact) is graph
    sets = graph.disjoint_val_sets
    assert not sets.strict_are_mapped(a.axis(1), b.axis(1))
    graph.map_vals(a.get_logical_domain()[0], b.get_logical_domain()[0])
    assert sets.strict_are_mapped(a.axis(1), b.axis(1))
    assert not mapped(fd.fusion, IdMappingMode.exact, a.axis(1), b.axis(1))
    a.split(0, 2)
    with pytest.raises(InvalidArgument, match="the axis was made after the graph, which has 8 axes"):
        sets.strict_are_mapped(a.axis(0), b.axis(0))


def test_errors(c):
    with pytest.raises(InvalidType, match="fusion must be a Fusion"):
        idm.IdModel(None)
    model = idm.IdModel(c.fd.fusion)
    with pytest.raises(InvalidType, match="mode must be an IdMappingMode"):
        model.maybe_build_graph("exact")
    sets = model.maybe_build_graph(IdMappingMode.exact).disjoint_val_sets
    with pytest.raises(InvalidType, match="an axis must be an IterDomain"):
        sets.strict_are_mapped(c.e, c.y.axis(0))
    with FusionDefinition() as other:
        z = other.define_tensor([2], True)
    with pytest.raises(InvalidType, match="axes of the fusion that it was built for"):
        sets.strict_are_mapped(z.axis(0), c.y.axis(0))
    del model
    gc.collect()
    assert sets.strict_are_mapped(c.e.axis(0), c.y.axis(0))  # they hold the graph


def test_what_makes_an_axis(c):
    assert c.y.axis(0).definition() is None
    c.y.split(1, 4)
    made = c.y.axis(2).definition()
    assert isinstance(made, Split)
    assert (made.outer, made.inner) == (c.y.axis(1), c.y.axis(2))
    assert made.inner_split
    assert "4" in str(made.factor)
    assert made.input(0) == c.y.get_logical_domain()[1]
    assert made == c.y.axis(1).definition()
    c.y.axis(0).parallelize(ParallelType.serial)
    c.y.merge(0)
    made = c.y.axis(0).definition()
    assert isinstance(made, Merge)
    assert not isinstance(made, Split)
    assert made.out == c.y.axis(0)
    assert (made.outer, made.inner.definition().factor) == (c.y.get_logical_domain()[0], made.inner.definition().factor)
    assert "Merge(" in repr(made)


def test_tags_of_expressions():
    with FusionDefinition() as fd:
        x = fd.define_tensor([2, 6], True)
        r = fd.ops.reshape(x, [3, 4])
        b = fd.ops.broadcast(r, [True, False, False])
        s = fd.ops.squeeze(b, [0])
        fd.add_output(s)
    tags = (BroadcastOp, SqueezeOp, ReshapeOp)
    assert [isinstance(b.definition(), t) for t in tags] == [True, False, False]
    assert [isinstance(s.definition(), t) for t in tags] == [False, True, False]
    assert [isinstance(r.definition(), t) for t in tags] == [False, False, True]
    assert not isinstance(3, BroadcastOp)
    assert r.definition().name() == "reshape"
    assert isinstance(r.axis(0).definition(), Split)
    assert x.definition() is None
