"""Programs of the kinds that broke in fusers where they are cut: what a cut must carry from one part to the next.

The kinds: random numbers, scalars and sizes that several parts need, types and roundings between parts, inputs that one
part overwrites and others read, parts that run in many threads at once.
"""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from agreement import agree, randn
from sweep_values import describe

from nvfuser_go import DataType, FusionDefinition, InvalidArgument

D = DataType


def test_each_report_has_a_test() -> None:
    marks = re.compile(r'^@pytest\.mark\.report\("(D\d\d)"\)$', re.MULTILINE)
    found = {number for path in Path(__file__).parent.glob("test_*.py") for number in marks.findall(path.read_text())}
    assert found == {f"D{i:02}" for i in range(1, 51)}


def cut(fd, x, where: str):
    """x, with a cut after it: none, by the program, or because the next part is a matrix product."""
    if where == "set":
        return fd.ops.segment_set(x)
    return fd.ops.matmul(x, fd.ops.cast(identity(fd, x.size(1)), x.dtype())) if where == "product" else x


def identity(fd, n):
    position = fd.ops.iota(n, dtype=D.Int)
    return fd.ops.eq(fd.ops.broadcast(position, [False, True]), fd.ops.broadcast(position, [True, False]))


CUTS = pytest.mark.parametrize("where", ["none", "set", "product"])


# ---- Random numbers ----


@CUTS
@pytest.mark.report("D36")
def test_numbers_of_a_seed_do_not_depend_on_cuts(where: str) -> None:
    x = randn(13, 7)

    def build(where: str) -> FusionDefinition:
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x)
            seed, offset = (fd.define_scalar(dtype=D.Int) for _ in range(2))
            state = {"rng_seed": seed, "rng_offset": offset}
            y = fd.ops.mul(t, fd.ops.uniform(0.0, 1.0, t.shape(), **state))
            z = cut(fd, y, where)
            fd.add_output(y)
            fd.add_output(fd.ops.mul(z, fd.ops.uniform(0.0, 1.0, t.shape(), **state)))
            fd.add_output(fd.ops.permute(fd.ops.uniform(0.0, 1.0, [7, 13], **state), [1, 0]))
        return fd

    with FusionDefinition() as alone:
        alone.add_output(alone.ops.uniform(0.0, 1.0, [91], rng_seed=5, rng_offset=8))
    (u,) = alone.execute([])
    for got in (build(where).execute([x, 5, 8]) for _ in range(2)):
        torch.testing.assert_close(got[0], x * u.reshape(13, 7), rtol=0, atol=0)
        torch.testing.assert_close(got[1], x * u.reshape(13, 7) ** 2)
        torch.testing.assert_close(got[2], u.reshape(7, 13).T, rtol=0, atol=0)


@CUTS
@pytest.mark.report("D36")
def test_numbers_without_a_seed_do_not_depend_on_cuts(where: str) -> None:
    x = randn(6, 5)
    results = []
    for each in ("none", where):
        with FusionDefinition() as fd:
            t = fd.from_pytorch(x)
            first = fd.ops.rand_like(t)
            y = cut(fd, fd.ops.add(t, first), each)
            fd.add_output(y)
            fd.add_output(fd.ops.mul(y, fd.ops.randn_like(t)))
        torch.manual_seed(3)
        results.append(fd.execute([x]) + fd.execute([x]))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


@CUTS
@pytest.mark.report("D37")
def test_a_mask_of_rows_is_one_in_all_parts(where: str) -> None:
    x = randn(9, 40)[:, ::2]
    with FusionDefinition() as fd:
        t = fd.define_tensor(**describe(x, D.Float, True))
        mask = fd.ops.lt(fd.ops.uniform(0.0, 1.0, [9, 1], rng_seed=2, rng_offset=0), 0.5)
        y = cut(fd, fd.ops.where(mask, t, 0.0), where)
        fd.add_output(fd.ops.where(mask, y, 1.0))
        fd.add_output(mask)
    got, mask = fd.execute([x])
    assert 0 < mask.sum() < 9
    assert torch.equal(got, torch.where(mask, x, 1.0))


# ---- Scalars and sizes ----


@CUTS
@pytest.mark.report("D12")
def test_scalars_that_several_parts_need(where: str) -> None:
    def program(fd, x, a, n):
        half = fd.ops.mul(a, 0.5)
        length = fd.ops.add(x.size(0), n)
        y = cut(fd, fd.ops.mul(x, half), where)
        z = cut(fd, fd.ops.add(y, fd.ops.cast(length, D.Double)), where)
        return fd.ops.mul(z, half), fd.ops.full([length, 2], half, D.Float), fd.ops.pad(z, [0, n])

    def expected(x, a, n):
        length, z = x.shape[0] + n, x * a / 2 + (x.shape[0] + n)
        return z * (a / 2), torch.full((length, 2), a / 2), F.pad(z, (0, n))

    for n in (0, 1, 3):
        agree(program, expected, randn(5, 4), 1.5, n, rtol=1e-5, atol=1e-5)


@pytest.mark.report("D12")
def test_sizes_of_an_input_that_a_part_does_not_read() -> None:
    def program(fd, x, like):
        y = fd.ops.segment_set(fd.ops.exp(x))
        flat = fd.ops.reshape(y, [like.size(1), like.size(0)])
        return fd.ops.sum(flat, 0), fd.ops.expand(fd.ops.broadcast(fd.ops.sum(flat), [True]), [like.size(1)])

    def expected(x, like):
        flat = x.exp().reshape(like.shape[1], like.shape[0])
        return flat.sum(0), flat.sum().expand(like.shape[1])

    for a, b in ((3, 4), (1, 12), (12, 1), (2, 6)):
        agree(program, expected, randn(12), torch.zeros(a, b), rtol=1e-5, atol=1e-5)


@pytest.mark.report("D12")
def test_sizes_that_contradict_each_other_are_found_across_a_cut() -> None:
    with FusionDefinition() as fd:
        x, y = (fd.define_tensor(shape=[-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.add(fd.ops.segment_set(fd.ops.exp(x)), y))
    for _ in range(2):
        with pytest.raises(InvalidArgument):
            fd.execute([randn(4), randn(5)])
        assert fd.execute([randn(4), randn(4)])[0].shape == (4,)


@pytest.mark.report("D48")
def test_a_scalar_input_that_only_the_last_part_needs() -> None:
    agree(
        lambda fd, x, unused, a: fd.ops.mul(fd.ops.matmul(fd.ops.exp(x), x), a),
        lambda x, unused, a: x.exp() @ x * a,
        randn(5, 5),
        3,
        0.25,
        rtol=1e-5,
        atol=1e-5,
    )


# ---- Types between parts ----


@CUTS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_value_is_rounded_where_the_program_says_alone(where: str, dtype: torch.dtype) -> None:
    """A Float stays one across a cut, and is not stored as its inputs are; a cast rounds, with a cut or not."""

    def program(fd, x):
        wide = cut(fd, fd.ops.mul(fd.ops.cast(x, D.Float), 1.001), where)
        narrow = cut(fd, fd.ops.cast(wide, x.dtype()), where)
        return fd.ops.mul(wide, 3.0), fd.ops.mul(fd.ops.cast(narrow, D.Float), 3.0)

    def expected(x):
        wide = x.float() * 1.001
        return wide * 3, wide.to(dtype).float() * 3

    agree(program, expected, randn(9, 7, dtype=dtype), rtol=1e-6, atol=0)


# ---- Updates in place ----


@CUTS
@pytest.mark.report("D03")
def test_parts_that_read_what_another_overwrites(where: str) -> None:
    """Running statistics, a parameter that its own update reads twice, and two inputs that are exchanged."""
    n = 7

    def build() -> FusionDefinition:
        with FusionDefinition() as fd:
            a, b, mean = (fd.define_tensor(shape=[-1, -1], contiguity=True) for _ in range(3))
            rows = cut(fd, fd.ops.add(a, b), where)
            fd.add_output(b, alias_input=a)
            fd.add_output(a, alias_input=b)
            new = fd.ops.add(fd.ops.mul(mean, 0.9), fd.ops.mul(rows, 0.1))
            fd.add_output(new, alias_input=mean)
            fd.add_output(fd.ops.sub(rows, mean))
            fd.add_output(fd.ops.matmul(mean, a))
        return fd

    fd = build()
    for seed in range(2):
        a, b, mean = (randn(n, n, seed=10 * seed + k) for k in range(3))
        inputs = [a.clone(), b.clone(), mean.clone()]
        difference, product = fd.execute(inputs)
        torch.testing.assert_close(difference, a + b - mean)
        torch.testing.assert_close(product, mean @ a, rtol=1e-5, atol=1e-5)
        for got, want in zip(inputs, (b, a, mean * 0.9 + (a + b) * 0.1), strict=True):
            torch.testing.assert_close(got, want)


# ---- Slices, cats and products ----


def rotated(fd, x, cos, sin):
    b, h, t, d = x.shape()
    left, right = fd.ops.slice(x, [0, 0, 0, 0], [b, h, t, d // 2]), fd.ops.slice(x, [0, 0, 0, d // 2], [b, h, t, d])
    return fd.ops.add(fd.ops.mul(x, cos), fd.ops.mul(fd.ops.cat([fd.ops.neg(right), left], -1), sin))


@pytest.mark.parametrize("tokens", [1, 5, 33])
def test_gradient_of_rotary_positions(tokens: int) -> None:
    """The halves go back to their places: pads, a cat and slices of computed values, with a product between."""

    def program(fd, grad, x, cos, sin):
        b, h, t, d = x.shape()
        g = fd.ops.mul(grad, sin)
        left, right = fd.ops.slice(g, [0, 0, 0, 0], [b, h, t, d // 2]), fd.ops.slice(g, [0, 0, 0, d // 2], [b, h, t, d])
        back = fd.ops.add(fd.ops.mul(grad, cos), fd.ops.cat([right, fd.ops.neg(left)], -1))
        scores = fd.ops.matmul(rotated(fd, x, cos, sin), fd.ops.permute(back, [0, 1, 3, 2]))
        return back, scores

    def expected(grad, x, cos, sin):
        def rotate(x):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        leaf = x.clone().requires_grad_()
        y = rotate(leaf)
        (back,) = torch.autograd.grad(y, leaf, grad)
        return back, (y @ back.transpose(-1, -2)).detach()

    shape = (2, 3, tokens, 6)
    angle = randn(tokens, 3).repeat(1, 2)
    agree(program, expected, randn(*shape), randn(*shape, seed=1), angle.cos(), angle.sin(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 4, 33])
def test_products_of_slices_and_cats(n: int) -> None:
    def program(fd, x, w):
        rows, width = x.shape()
        both = fd.ops.cat([x, fd.ops.exp(x)], 1)
        y = fd.ops.matmul(both, w)
        part = fd.ops.slice(y, [0, 1], [rows, width])
        return fd.ops.cat([part, fd.ops.slice(x, [0, 0], [rows, 1])], 1), fd.ops.sum(part, 0)

    def expected(x, w):
        part = (torch.cat([x, x.exp()], 1) @ w)[:, 1 : x.shape[1]]
        return torch.cat([part, x[:, :1]], 1), part.sum(0)

    agree(program, expected, randn(n, 6), randn(12, 9), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 33, 1024])
def test_sum_of_columns_of_a_broadcast_sum(rows: int) -> None:
    agree(
        lambda fd, x, b: fd.ops.sum(fd.ops.add(x, fd.ops.broadcast_in_dim(b, x.shape(), [1])), 0),
        lambda x, b: (x.double() + b.double()).sum(0).float(),
        randn(rows, 205),
        randn(205),
        rtol=1e-5,
        atol=1e-4,
    )


# ---- Caches and threads ----


@pytest.mark.report("D50")
def test_many_definitions_in_many_threads() -> None:
    """Threads define and execute fusions that are cut, equal and different ones, while others do."""
    threads, fusions, rounds = 8, 12, 3
    ready = threading.Barrier(threads)

    def program(kind: int) -> FusionDefinition:
        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=True)
            y = fd.ops.segment_set(fd.ops.add(fd.ops.sum(x, [1], keepdim=True), x))
            for _ in range(kind % 3):
                y = fd.ops.relu(fd.ops.matmul(y, x))
            fd.add_output(fd.ops.add(y, float(kind)))
        return fd

    def expected(kind: int, x: torch.Tensor) -> torch.Tensor:
        y = x.sum(1, keepdim=True) + x
        for _ in range(kind % 3):
            y = (y @ x).relu()
        return y + kind

    def work(thread: int) -> None:
        ready.wait(timeout=60)
        shared = [program(kind) for kind in range(fusions)]
        for round in range(rounds):
            for kind in range(fusions):
                at = (kind + thread) % fusions
                x = randn(3 + round, 3 + round, seed=thread)
                torch.testing.assert_close(shared[at].execute([x])[0], expected(at, x), rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, thread) for thread in range(threads)]:
            done.result(timeout=120)
