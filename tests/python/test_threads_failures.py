"""Runs of several phases in which an allocation fails, and inputs that are written and read by several segments."""

import random
import subprocess
import sys
from pathlib import Path

import torch

from nvfuser_go import FusionDefinition, InvalidArgument

# The compiled module takes torch.empty_strided when it is imported.
ALLOCATIONS = """
import gc, sys
import torch

allocate, calls, failing = torch.empty_strided, 0, 0

def counted(*args, **kwargs):
    global calls
    calls += 1
    if calls == failing:
        raise RuntimeError("no memory, on purpose\\nand a stack")
    return allocate(*args, **kwargs)

torch.empty_strided = counted
sys.path.insert(0, {folder!r})
from thread_programs import program
from nvfuser_go import FusionError

gc.collect()
gc.freeze()  # the collector need not look at torch each time

def live():
    gc.collect()
    return sum(type(x) is torch.Tensor for x in gc.get_objects())

for simulate in (False, True):
    for number in range(6):
        p = program(number)
        p.check(simulate)
        calls = 0
        p.check(simulate)
        most = calls
        assert most > 0 or simulate, number  # else the only result is of torch
        inputs = p.inputs()
        before = live()
        for at in range(1, most + 1):
            calls, failing = 0, at
            try:
                p.fd.execute(inputs, _enable_options=["simulate"] if simulate else [])
                raise AssertionError("it did not fail")
            except FusionError as failure:
                text = str(failure)
                assert "no memory, on purpose" in text and "and a stack" not in text, text
                assert isinstance(failure.__cause__, RuntimeError)
            failing = 0
            assert live() == before, (number, at)
            p.check(simulate)
print("right")
"""


def test_each_allocation_fails_once() -> None:
    """The error tells what was to be allocated, all memory is given back, and the next call is right."""
    script = ALLOCATIONS.format(folder=str(Path(__file__).parent))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "right\n", done.stderr


def in_place(rng: random.Random) -> tuple[FusionDefinition, list[torch.Tensor]]:
    """A fusion of products and kernels that writes some of what it computes into its inputs."""
    with FusionDefinition() as fd:
        inputs = [fd.define_tensor([-1, -1], [True, True]) for _ in range(3)]
        values = list(inputs)
        for _ in range(rng.randint(3, 9)):
            a, b = rng.choice(values), rng.choice(values)
            values.append(
                rng.choice(
                    [
                        lambda a=a, b=b: fd.ops.tanh(fd.ops.matmul(a, b)),
                        lambda a=a, b=b: fd.ops.add(a, b),
                        lambda a=a, b=b: fd.ops.sub(a, fd.ops.sum(b, [rng.randint(0, 1)], keepdim=True)),
                        lambda a=a, b=b: fd.ops.sin(fd.ops.mul(a, 0.5)),
                        lambda a=a, b=b: fd.ops.permute(a, [1, 0]),
                        lambda a=a, b=b: fd.ops.cumsum(a, 1),
                    ]
                )()
            )
        for x in rng.sample(inputs, rng.randint(1, 3)):
            fd.add_output(rng.choice(values[3:]), x)
        for y in rng.sample(values, rng.randint(1, 2)):
            fd.add_output(y)
    return fd, [torch.randn(4, 4) for _ in inputs]


def check_in_place(seed: int) -> None:
    """The simulator and the CPU leave equal outputs and equal inputs, in both calls."""
    rng = random.Random(seed)
    fd, given = in_place(rng)
    if rng.random() < 0.2:
        given[1] = given[0]  # one tensor for two inputs
    for _ in range(2):
        results = []
        for options in ([], ["simulate"]):
            copies = {id(x): x.clone() for x in given}
            inputs = [copies[id(x)] for x in given]
            try:
                results.append([*fd.execute(inputs, _enable_options=options), *inputs])
            except InvalidArgument as error:  # both of one tensor are written
                assert given[1] is given[0]
                assert "each receive an output and share memory" in str(error)
                results.append(inputs)
        for want, got in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3, msg=lambda m: f"seed {seed}: {m}\n{fd}")


def test_inputs_written_among_segments() -> None:
    for seed in range(300):
        check_in_place(seed)
