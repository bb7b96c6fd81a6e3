"""Softmax, norms, cross entropy and reductions on the device, with their gradients: all cases of tests/python/norms.py.

GPU_TESTS_EVERY=N runs one case of N. Several processes run at once: what needs much memory waits for its turn.
"""

import contextlib
import fcntl
import os
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from device import DEVICE, REHEARSAL, execute, on_device
from norms import DTYPES, IMAGE_LAYOUTS, OF_IMAGES, OF_ROWS, WIDTHS, Case, image_cases, problem, row_cases
from programs import Program

EVERY = int(os.environ.get("GPU_TESTS_EVERY", "1"))

# Elements of the largest input: up to how many a case runs at any time, and up to how many MIDDLE cases run at once; of
# larger ones only one. A case takes up to BYTES_OF_ELEMENT each. In a rehearsal those beyond REHEARSED are left out.
SMALL, MEDIUM, MIDDLE = 1 << 24, 1 << 27, 2
BYTES_OF_ELEMENT = 40
REHEARSED = 1 << 11


def lock_file(name: str) -> Path:
    return Path(tempfile.gettempdir(), f"nvfuser_go-gpu-tests-{os.getuid()}-{name}")


@contextlib.contextmanager
def turn(elements: int) -> Iterator[None]:
    """Holds a lock while a case with so many elements runs; the lock goes with the process, however that ends."""
    if elements <= SMALL or REHEARSAL:
        yield
        return
    names = ["large"] if elements > MEDIUM else [f"medium-{i}" for i in range(MIDDLE)]
    with contextlib.ExitStack() as files:
        found = [files.enter_context(open(lock_file(name), "w")) for name in names]
        for file in found:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
        else:
            fcntl.flock(found[os.getpid() % len(found)], fcntl.LOCK_EX)
        try:
            yield
        finally:
            torch.cuda.empty_cache()


def call(program: Program) -> list[torch.Tensor]:
    got = execute(program.fusion(), program.inputs)
    assert on_device(got), f"outputs on {[str(x.device) for x in got]}"
    return got


def room() -> int:
    """The elements that a case may have."""
    if REHEARSAL:
        return REHEARSED
    return int(0.9 * torch.cuda.get_device_properties(0).total_memory) // BYTES_OF_ELEMENT


def check(cases: Iterable[Case], test: str) -> None:
    """Fails with what is wrong with each case; skips if the device has no room for any. The name of the test decides
    which cases are in a sample."""
    wrong, ran, too_large, first = [], 0, 0, zlib.crc32(test.encode())
    for number, case in enumerate(cases):
        if (first + number) % EVERY:
            continue
        if case.elements > room():
            too_large += 1
            continue
        ran += 1
        try:
            with turn(case.elements):
                found = problem(case, call, DEVICE)
        except Exception as error:
            found = f"{type(error).__name__}: {error}".split("\n", 1)[0][:300]
        if found:
            wrong.append(f"{case}: {found}")
    assert not wrong, f"{len(wrong)} of {ran} cases are wrong:\n" + "\n".join(wrong)
    if too_large and not ran:
        pytest.skip(f"{too_large} cases need more memory than there is")


NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@pytest.mark.parametrize("name", OF_ROWS)
def test_rows(name: str, dtype: torch.dtype, width: int, request: pytest.FixtureRequest) -> None:
    check(row_cases(name, dtype, width), request.node.name)


@pytest.mark.parametrize("layout", IMAGE_LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=NAMES.get)
@pytest.mark.parametrize("name", OF_IMAGES)
def test_images(name: str, dtype: torch.dtype, layout: str, request: pytest.FixtureRequest) -> None:
    check(image_cases(name, dtype, layout), request.node.name)


def is_free(file: Path) -> bool:
    with open(file, "w") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.anywhere
def test_large_cases_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "REHEARSAL", False)
    monkeypatch.setattr(here, "lock_file", lambda name: tmp_path / name)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    with turn(SMALL):
        assert not list(tmp_path.iterdir())
    with turn(MEDIUM + 1):
        assert not is_free(tmp_path / "large")
        with turn(MEDIUM), turn(MEDIUM):
            assert not any(is_free(tmp_path / f"medium-{i}") for i in range(MIDDLE))
        assert all(is_free(tmp_path / f"medium-{i}") for i in range(MIDDLE))
    assert is_free(tmp_path / "large")


@pytest.mark.anywhere
def test_what_is_wrong_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that is a little off in one case, and an exception in another."""
    here = sys.modules[__name__]

    def planted(program: Program) -> list[torch.Tensor]:
        (x,) = program.inputs
        if x.shape[0] == 7:
            raise RuntimeError("no kernel")
        y = program.eager(x)
        y.view(-1)[-1] *= 1 + (1e-5 if x.shape[0] == 132 else 0)
        return [y]

    monkeypatch.setattr(here, "DEVICE", torch.device("cpu"))
    monkeypatch.setattr(here, "EVERY", 1)
    monkeypatch.setattr(here, "room", lambda: 132 * 33)
    monkeypatch.setattr(here, "call", planted)
    with pytest.raises(AssertionError) as caught:
        check(row_cases("softmax", torch.float32, 33), "a test")
    first, *wrong = str(caught.value).splitlines()
    assert first == "2 of 3 cases are wrong:"
    assert wrong[0].endswith("RuntimeError: no kernel")
    assert wrong[0].lstrip().startswith("7x33 ")
    assert wrong[1].lstrip().startswith("132x33 ")
    assert "output 0: " in wrong[1]
