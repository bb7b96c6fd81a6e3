"""What callers may do to inputs, and what they may not: the right answer or an error that says what to do."""

import gc

import pytest
import torch
from device import DEVICE, execute, on_device, put
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, FusionError, InvalidArgument, InvalidType, ParallelType, Unsupported

D = DataType


def relu(x: torch.Tensor, dtype: DataType = D.Float, dynamic: bool = True) -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.relu(fd.define_tensor(**describe(x, dtype, dynamic))))
    return fd


def any_layout(rank: int, dtype: DataType = D.Float) -> FusionDefinition:
    """relu of a tensor of which only the rank is known."""
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.relu(fd.define_tensor([-1] * rank, dtype=dtype)))
    return fd


@pytest.mark.cuda
def test_more_memory_than_there_is():
    with FusionDefinition() as full:
        full.add_output(full.ops.full([1 << 20, 1 << 20], 1.0, D.Float))
    with FusionDefinition() as outer:
        a, b = outer.define_tensor([-1, 1]), outer.define_tensor([1, -1])
        outer.add_output(outer.ops.add(a, b))
    x = torch.randn(1 << 20, device="cuda")
    before = torch.cuda.memory_allocated()
    for fd, inputs in [(full, []), (outer, [x[:, None], x[None]])] * 3:
        with pytest.raises((torch.OutOfMemoryError, FusionError, MemoryError), match=r"(?i)memory"):
            execute(fd, inputs)
        assert torch.cuda.memory_allocated() == before
    y = torch.randn(5, device="cuda")
    assert torch.equal(execute(relu(y), [y])[0], y.relu())


def test_a_launch_that_needs_too_many_threads():
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = fd.ops.add(x, 1.0)
        fd.add_output(y)
    y.split(0, 2048)
    y.parallelize(0, ParallelType.grid_x)
    y.parallelize(1, ParallelType.block_x)
    with pytest.raises((InvalidArgument, Unsupported), match=r"2048.*1024"):
        fd.manual_execute([torch.randn(5000, device=DEVICE)])
    z = torch.randn(5, device=DEVICE)
    assert torch.equal(execute(relu(z), [z])[0], z.relu())


@pytest.mark.cuda
def test_inputs_on_different_devices():
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1], True) for _ in range(2))
        fd.add_output(fd.ops.add(a, b))
    here, there = torch.randn(5, device="cuda"), torch.randn(5)
    for inputs in ([here, there], [there, here]):
        with pytest.raises(InvalidArgument) as caught:
            fd.execute(inputs)
        assert "cuda:0" in str(caught.value)
        assert "cpu" in str(caught.value)
        assert "input" in str(caught.value)
    assert torch.equal(fd.execute([here, here])[0], here + here)
    assert torch.equal(fd.execute([there, there])[0], there + there)


@pytest.mark.cuda
def test_a_device_that_is_not_that_of_the_inputs():
    x = torch.randn(5, device="cuda")
    fd = relu(x)
    for device in ("cpu", 200, "cuda:200", "nosuch"):
        with pytest.raises(InvalidArgument):
            fd.execute([x], device=device)
    with pytest.raises(InvalidArgument):
        fd.execute([x.cpu()], device="cuda")
    for device in (None, 0, "cuda", "cuda:0", torch.device("cuda", 0)):
        (got,) = fd.execute([x], device=device)
        assert got.device == x.device
        assert torch.equal(got, x.relu())


@pytest.mark.cuda
def test_a_device_that_does_not_exist():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([3], 1.0, D.Float))
    with pytest.raises(InvalidArgument):
        fd.execute([], device=torch.cuda.device_count())


@pytest.mark.cuda
def test_factories_run_on_the_device():
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.full([3, 5], 2.5, D.Float))
        fd.add_output(fd.ops.iota(7, 1, 2, D.Int))
    for device in (None, "cuda"):
        a, b = fd.execute([], device=device)
        assert a.device == b.device == torch.device("cuda:0")
        assert torch.equal(a.cpu(), torch.full((3, 5), 2.5))
        assert torch.equal(b.cpu(), torch.arange(1, 15, 2))
    assert not fd.execute([], device="cpu")[0].is_cuda


def test_memory_that_is_freed_and_comes_back():
    x = torch.randn(64, device=DEVICE)
    fd = relu(x)
    want = x.relu()
    assert torch.equal(execute(fd, [x])[0], want)
    kept, size = x.clone(), x.untyped_storage().nbytes()
    x.untyped_storage().resize_(0)
    with pytest.raises(FusionError):
        execute(fd, [x])
    x.untyped_storage().resize_(size)
    x.copy_(kept)
    assert torch.equal(execute(fd, [x])[0], want)


def test_an_input_that_is_resized_between_calls():
    x = torch.randn(64, device=DEVICE)
    fd, fixed = any_layout(1), relu(x, dynamic=False)
    for n in (64, 10, 0, 1, 257, 64):
        x.resize_(n).normal_()
        assert torch.equal(execute(fd, [x])[0], x.relu())
        if n != 64:
            with pytest.raises(InvalidArgument):
                execute(fixed, [x])
        else:
            assert torch.equal(execute(fixed, [x])[0], x.relu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64, torch.bool, torch.int32], ids=str)
def test_pointers_less_aligned_than_at_first(dtype):
    kind = {torch.float32: D.Float, torch.float16: D.Half, torch.float64: D.Double, torch.bool: D.Bool}
    base = torch.randint(-3, 4, (4200,), device=DEVICE).to(dtype)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, dtype=kind.get(dtype, D.Int32))
        fd.add_output(fd.ops.set(x))
        fd.add_output(fd.ops.eq(x, x))
    for offset in [0, 1, 2, 3, 4, 8, 0, 5]:
        for length in (4096, 4095, 1):
            part = base[offset : offset + length]
            copy, same = execute(fd, [part])
            assert torch.equal(copy, part)
            assert same.all()


def test_two_inputs_of_which_one_is_misaligned():
    base = torch.randn(5000, device=DEVICE)
    with FusionDefinition() as fd:
        a, b = (fd.define_tensor([-1], True) for _ in range(2))
        fd.add_output(fd.ops.sub(a, b))
    for first in (0, 1, 2, 4):
        for second in (0, 1, 2, 4):
            a, b = base[first : first + 4096], base[second : second + 4096]
            assert torch.equal(execute(fd, [a, b])[0], a - b)


def test_strides_that_change_between_calls():
    fd = any_layout(3)
    x = torch.randn(6, 10, 14, device=DEVICE)
    for y in [
        x,
        x.permute(2, 0, 1),
        x[:, ::2],
        x[:, :, 1:],
        x.transpose(0, 2),
        x[:1].expand(6, 10, 14) + 0,
        torch.randn(6, 1, 1, device=DEVICE),
        torch.randn(0, 3, 4, device=DEVICE),
        x.mT.contiguous().mT,
    ]:
        (got,) = execute(fd, [y])
        assert torch.equal(got, y.relu())
        assert torch.equal(execute(fd, [y])[0], got)


def test_what_lies_between_the_elements_stays():
    base = torch.full((8, 9), -7.0, device=DEVICE)
    view = base[:, 1:6:2]
    view.copy_(torch.randn(8, 3))
    want, kept = view.relu(), base.clone()
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], [False, False])
        fd.add_output(fd.ops.relu(x), x)
    execute(fd, [view])
    assert torch.equal(view, want)
    kept[:, 1:6:2] = want
    assert torch.equal(base, kept)


def test_inputs_that_require_grad():
    x = torch.randn(4, 4, device=DEVICE, requires_grad=True)
    parameter = torch.nn.Parameter(torch.randn(4, 4, device=DEVICE))
    fd = relu(x.detach())
    for t in (x, x * 2, parameter):
        (got,) = execute(fd, [t])
        assert not got.requires_grad
        assert torch.equal(got, t.detach().relu())


def test_inference_mode():
    with torch.inference_mode():
        x = torch.randn(4, 4, device=DEVICE)
        fd = relu(x)
        (got,) = execute(fd, [x])
        assert torch.equal(got, x.relu())
    assert torch.equal(execute(fd, [torch.ones(4, 4, device=DEVICE)])[0].cpu(), torch.ones(4, 4))


def test_views_with_the_conjugate_and_the_negative_bit():
    x = torch.randn(5, 6, dtype=torch.complex64, device=DEVICE)
    with FusionDefinition() as fd:
        t = fd.define_tensor([-1, -1], dtype=D.ComplexFloat)
        fd.add_output(fd.ops.set(t))
    conjugate = x.conj()
    assert conjugate.is_conj()
    try:
        assert torch.equal(execute(fd, [conjugate])[0], conjugate.resolve_conj())
    except InvalidType as refused:
        assert "conj" in str(refused)
    negative = conjugate.imag
    assert negative.is_neg()
    real = any_layout(2)
    assert torch.equal(execute(real, [x.real])[0], x.real.relu())
    try:
        assert torch.equal(execute(real, [negative])[0], negative.resolve_neg().relu())
    except InvalidType as refused:
        assert "neg" in str(refused)


def test_tensors_without_data_are_refused():
    fd = any_layout(1)
    meta = torch.empty(5, device="meta")
    sparse = torch.eye(5, device=DEVICE).to_sparse()
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.empty(5, device=DEVICE)
    for t in (meta, sparse, fake):
        with pytest.raises(InvalidType):
            execute(fd, [t])
    x = torch.randn(5, device=DEVICE)
    assert torch.equal(execute(fd, [x])[0], x.relu())


def test_a_subclass_is_refused():
    class Mine(torch.Tensor):
        pass

    x = torch.randn(5, device=DEVICE)
    with pytest.raises(InvalidType):
        execute(any_layout(1), [x.as_subclass(Mine)])


# ---- Scalars and tensors of rank 0 ----


def scaled() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        s = fd.define_scalar(dtype=D.Double)
        fd.add_output(fd.ops.mul(x, s))
    return fd


def test_numbers():
    fd, x = scaled(), torch.randn(100, device=DEVICE)
    for s in (2.0, -0.5, 0.0, 3, 1e-3, float("inf"), float("nan"), 1e300):
        (got,) = execute(fd, [x, s])
        torch.testing.assert_close(got, x * s, rtol=1e-6, atol=0, equal_nan=True)


@pytest.mark.cuda
def test_a_tensor_of_rank_0_on_the_cpu():
    x = torch.randn(100, device="cuda")
    for is_cpu in (True, False):
        with FusionDefinition() as fd:
            a = fd.define_tensor([-1], True)
            b = fd.define_tensor([], [], is_cpu=is_cpu)
            fd.add_output(fd.ops.add(a, b))
        for value in (1.5, -2.0, 0.25):
            (got,) = fd.execute([x, torch.tensor(value)])
            assert got.is_cuda
            assert torch.equal(got, x + value)
        if not is_cpu:
            assert torch.equal(fd.execute([x, torch.tensor(1.5, device="cuda")])[0], x + 1.5)


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("dtype", "value"),
    [(torch.float16, 1.5), (torch.bfloat16, -2.5), (torch.float64, 1e-3), (torch.int32, 7), (torch.bool, True)]
    + [(torch.int64, -(2**40)), (torch.complex64, 1 + 2j), (torch.complex128, -1j)],
    ids=str,
)
def test_types_of_tensors_of_rank_0(dtype, value):
    x = torch.ones(33, device="cuda", dtype=dtype)
    s = torch.tensor(value, dtype=dtype)
    with FusionDefinition() as fd:
        a, b = fd.from_pytorch(x), fd.from_pytorch(s)
        fd.add_output(fd.ops.set(fd.ops.where(fd.ops.eq(a, a), b, b)))
    (got,) = fd.execute([x, s])
    assert got.is_cuda
    assert torch.equal(got.to(dtype), s.cuda().expand(33))


def test_rank_0_and_no_elements():
    for shape in ((), (0,), (3, 0, 2), (1,), (1, 1)):
        x = torch.randn(shape, device=DEVICE)
        (got,) = execute(any_layout(len(shape)), [x])
        assert got.shape == x.shape
        assert got.device == x.device
        assert torch.equal(got, x.relu())


# ---- Outputs that are inputs ----


def test_in_place():
    x = torch.randn(70, 33, device=DEVICE)
    want = x.relu()
    version = x._version
    with FusionDefinition() as fd:
        a = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.relu(a), a)
    execute(fd, [x])
    assert torch.equal(x, want)
    assert x._version > version


def test_in_place_and_the_old_value_elsewhere():
    x, y = torch.randn(10, 2, device=DEVICE), torch.randn(2, 10, 2, device=DEVICE)
    want, total = x.relu(), x + y
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, -1], True), fd.define_tensor([-1, -1, -1], True)
        fd.add_output(fd.ops.relu(a), a)
        fd.add_output(fd.ops.add(fd.ops.broadcast(a, [True, False, False]), b))
    got = execute(fd, [x, y])
    assert torch.equal(got[-1], total)
    assert torch.equal(x, want)


@pytest.mark.parametrize("offset", [0, 1, 7, 64, 128])
@pytest.mark.parametrize("swapped", [False, True])
def test_in_place_over_memory_that_another_input_shares(offset, swapped):
    base = torch.randn(1000, device=DEVICE)
    a, b = base[:800], base[offset : offset + 800]
    if swapped:
        a, b = b, a
    want = a + 2 * b
    with FusionDefinition() as fd:
        p, q = (fd.define_tensor([-1], True) for _ in range(2))
        fd.add_output(fd.ops.add(p, fd.ops.mul(q, 2.0)), p)
    apart = torch.ones(800, device=DEVICE)
    execute(fd, [apart, torch.ones(800, device=DEVICE)])  # a plan for inputs that share nothing comes first
    assert torch.equal(apart.cpu(), torch.full((800,), 3.0))
    try:
        execute(fd, [a, b])
    except FusionError as refused:
        assert "overlap" in str(refused) or "share" in str(refused)
        return
    assert torch.equal(a, want)


def test_two_outputs_into_two_inputs():
    a, b = torch.randn(500, device=DEVICE), torch.randn(500, device=DEVICE)
    total, difference = a + b, a - b
    with FusionDefinition() as fd:
        p, q = (fd.define_tensor([-1], True) for _ in range(2))
        fd.add_output(fd.ops.add(p, q), q)
        fd.add_output(fd.ops.sub(p, q), p)
    execute(fd, [a, b])
    assert torch.equal(a, difference)
    assert torch.equal(b, total)


# ---- Size ----


@pytest.mark.cuda
@pytest.mark.alone
def test_more_than_2_to_the_31_elements():
    n = 2**31 + 5
    if torch.cuda.mem_get_info()[0] < 3 * n:
        pytest.skip("less than 6 GB of free memory")
    x = torch.zeros(n, dtype=torch.bool, device="cuda")
    x[::1024] = True
    x[-3:] = True
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.logical_not(fd.define_tensor([-1], True, dtype=D.Bool)))
    (got,) = fd.execute([x])
    x.logical_not_()
    assert torch.equal(got, x)
    assert not got[-1]
    del got
    part = x[1:]  # misaligned
    (got,) = fd.execute([part])
    assert torch.equal(got, part.logical_not())


@pytest.mark.cuda
@pytest.mark.alone
def test_two_dimensions_of_more_than_2_to_the_31_elements():
    rows, columns = 65_537, 32_771
    if torch.cuda.mem_get_info()[0] < 6 * rows * columns:
        pytest.skip("less than 12 GB of free memory")
    x = torch.ones(rows, columns, dtype=torch.bool, device="cuda")
    x[-1] = False
    mask = torch.arange(columns, device="cuda") % 3 == 0
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1, -1], True, dtype=D.Bool), fd.define_tensor([-1], True, dtype=D.Bool)
        fd.add_output(fd.ops.logical_and(a, fd.ops.broadcast(b, [True, False])))
    (got,) = fd.execute([x, mask])
    assert on_device([got])
    assert torch.equal(got, x.logical_and_(mask))


@pytest.mark.cuda
@pytest.mark.alone
@pytest.mark.parametrize("how", ["scalar", "inner", "outer", "softmax", "layer norm"])
def test_reductions_of_more_than_2_to_the_31_elements(how: str):
    """What is beyond 2^31 is counted: the last rows are not those that an index of 32 bits would give."""
    rows, columns = {"outer": (2**25 + 3, 65), "inner": (65_537, 32_776)}.get(how, (262_147, 8_200))
    keeps = how in ("softmax", "layer norm")
    if torch.cuda.mem_get_info()[0] < (7 if keeps else 3) * rows * columns:
        pytest.skip("less than 15 GB of free memory")
    x = torch.zeros(rows, columns, dtype=torch.bfloat16, device="cuda")
    x[:, 3] = 2.0
    x[-1] = 1.0
    x[-1, -1] = 3.0
    with FusionDefinition() as fd:
        t = fd.define_tensor([-1, -1], True, dtype=D.BFloat16)
        wide = fd.ops.cast(t, D.Float)
        if how == "softmax":
            e = fd.ops.exp(wide - fd.ops.max(wide, [1], keepdim=True))
            fd.add_output(fd.ops.cast(e / fd.ops.sum(e, [1], keepdim=True), D.BFloat16))
        elif how == "layer norm":
            variance, mean = fd.ops.var_mean(wide, [1], correction=0, keepdim=True)
            fd.add_output(fd.ops.cast((wide - mean) * fd.ops.rsqrt(variance + 1e-5), D.BFloat16))
        else:
            fd.add_output(fd.ops.sum(wide, {"scalar": [0, 1], "inner": [1], "outer": [0]}[how]))
    (got,) = fd.execute([x])
    assert on_device([got])
    if keeps:
        by = torch.softmax if how == "softmax" else lambda y, _: torch.nn.functional.layer_norm(y, y.shape[-1:])
        for start in range(0, rows, 1 << 14):
            part = slice(start, start + (1 << 14))
            torch.testing.assert_close(got[part].float(), by(x[part].float(), 1), rtol=2**-7, atol=0)
        return
    # Sums of whole numbers. Of a column other than the fourth only the last row is not zero.
    row = torch.full((columns,), 1.0, device="cuda")
    row[-1] = 3.0
    row[3] = 2.0 * (rows - 1) + 1.0
    want = {"scalar": row.double().sum().float(), "outer": row}.get(how)
    if want is None:
        want = torch.full((rows,), 2.0, device="cuda")
        want[-1] = columns + 2.0
    torch.testing.assert_close(got, want, rtol=2**-22, atol=0)


# ---- Python while a call runs ----


def test_collections_of_garbage_during_calls():
    """Objects that die inside a call may run fusions themselves."""
    x = torch.randn(50, device=DEVICE)
    fd = any_layout(1)
    want, died = x.relu(), []

    class Dying:
        def __init__(self):
            self.itself = self

        def __del__(self):
            died.append(torch.equal(execute(fd, [x])[0], want))

    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(200):
            Dying()
            assert torch.equal(execute(fd, [x])[0], want)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(died) == 200
    assert all(died)


def test_a_deleted_definition_does_not_end_what_runs():
    x = put(torch.randn(1000))
    outputs = []
    for k in range(20):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.add(fd.define_tensor([-1], True), float(k)))
        outputs += execute(fd, [x])
        del fd
        gc.collect()
    for k, got in enumerate(outputs):
        assert torch.equal(got, x + k)
