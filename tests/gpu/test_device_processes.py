"""Processes: forks, exits, and the folder of compiled kernels."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from device import child, says

pytestmark = pytest.mark.cuda

# A program that runs one fusion and prints "right" if its result is.
RUN = """
import torch
from nvfuser_go import FusionDefinition

def fusion(k):
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        fd.add_output(fd.ops.add(fd.ops.mul(fd.ops.relu(x), k), 0.5))
    return fd

def check(fd, k, n=1000):
    x = torch.randn(n, device="cuda")
    (got,) = fd.execute([x])
    torch.testing.assert_close(got, x.relu() * k + 0.5)

"""


def program(body: str) -> str:
    return RUN + textwrap.dedent(body)


ONE = program("""
    check(fusion(2.0), 2.0)
    print("right")
""")


def test_a_fork_before_and_after_the_first_call():
    code = program("""
    import os, sys
    from nvfuser_go import FusionError

    def forked(call):
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                call()
            except FusionError as refused:
                os._exit(0 if "spawn" in str(refused) else 3)
            except BaseException:
                os._exit(4)
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    x = torch.ones(5)
    fd = fusion(2.0)
    print(forked(lambda: fd.execute([x])))
    check(fd, 2.0)
    y = torch.ones(5, device="cuda")
    print(forked(lambda: fd.execute([y])))
    print(forked(lambda: fusion(3.0)))
    check(fd, 2.0)
    check(fusion(4.0), 4.0)
    """)
    assert says(code).split() == ["0", "0", "0"]


def test_spawned_processes():
    code = """
    import multiprocessing
    import torch
    from nvfuser_go import FusionDefinition

    def work(k):
        with FusionDefinition() as fd:
            fd.add_output(fd.ops.add(fd.define_tensor([-1], True), float(k)))
        return fd.execute([torch.ones(3, device="cuda")])[0].tolist()

    if __name__ == "__main__":
        assert work(1) == [2.0] * 3
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            print(pool.map(work, range(4)) == [[1.0 + k] * 3 for k in range(4)])
    """
    file = Path(os.environ.get("TMPDIR", "/tmp")) / f"spawned-{os.getpid()}.py"
    file.write_text(textwrap.dedent(code))
    try:
        done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False, timeout=240)
    finally:
        file.unlink()
    assert done.stdout.strip() == "True", done.stderr


@pytest.mark.parametrize("what", ["calls", "compilations"])
def test_exit_while_threads_run_fusions(what):
    """The threads call nothing of torch themselves."""
    code = program("""
    import itertools, threading, time
    fd, x = fusion(2.0), torch.randn(1000, device="cuda")
    check(fd, 2.0)

    def calls():
        inputs = [x]
        while True:
            fd.execute(inputs)

    def torch_alone():
        while True:
            torch.add(x, x)

    def compilations(first):
        inputs = [x]
        for k in itertools.count(first):
            fusion(float(k)).execute(inputs)

    for i in range(4):
        arguments = (1000000 * i,) if WHAT == "compilations" else ()
        threading.Thread(target=globals()[WHAT], args=arguments, daemon=True).start()
    time.sleep(0.7)
    print("leaving", flush=True)
    """)
    ends = {name: [child(f"WHAT = {name!r}\n{code}") for _ in range(3)] for name in (what, "torch_alone")}
    if any(done.returncode != 0 for done in ends["torch_alone"]):
        pytest.skip("torch.add in such threads aborts the process here, and a call allocates by torch")
    for done in ends[what]:
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "leaving"


def test_import_starts_nothing_of_cuda():
    code = """
    import nvfuser_go, torch
    from nvfuser_go import FusionDefinition
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.neg(fd.define_tensor([-1], True)))
    fd.execute([torch.ones(3)])
    print(torch.cuda.is_initialized())
    maps = open("/proc/self/maps").read()
    import os
    print("nvidia0" in maps or any("nvidia" in os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
          if os.path.exists(f"/proc/self/fd/{n}")))
    """
    assert says(code).split() == ["False", "False"]


# ---- The folder of compiled kernels ----


def files(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def kinds(kept: dict[str, bytes]) -> list[str]:
    return sorted(Path(name).suffix for name in kept)


def right(folder: Path, code: str = ONE) -> str:
    """Runs the program with that folder; what it says on standard error."""
    done = child(code, NVFUSER_GO_CACHE_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "right"
    return done.stderr


def test_a_second_process_finds_the_kernel(tmp_path):
    folder = tmp_path / "kernels"
    assert right(folder) == ""
    before = files(folder)
    assert kinds(before) == [".cubin", ".plan"]
    assert right(folder) == ""
    assert files(folder) == before


@pytest.mark.parametrize("kind", [".cubin", ".plan"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "foreign", "longer"])
def test_a_file_that_is_not_what_it_was(tmp_path, damage, kind):
    folder = tmp_path / "kernels"
    right(folder, program('check(fusion(7.0), 7.0); print("right")'))
    other = set(files(folder))
    right(folder)
    before = files(folder)
    (name,) = (name for name in set(before) - other if name.endswith(kind))
    (foreign,) = (name for name in other if name.endswith(kind))
    content = before[name]
    changed = {
        "truncated": content[: len(content) // 2],
        "empty": b"",
        "flipped": content[:-100] + bytes([content[-100] ^ 1]) + content[-99:],
        "foreign": before[foreign],
        "longer": content + b"x",
    }[damage]
    (folder / name).write_bytes(changed)
    right(folder)
    again = files(folder)
    assert again.keys() == before.keys()
    assert again[name] != changed  # made again, if not to the bit: a log tells how long the compiler took
    right(folder)
    assert files(folder) == again


def test_a_folder_that_cannot_be_made(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    for folder in (blocked, blocked / "below", Path("/proc/kernels"), Path("/dev/null")):
        right(folder)
    assert blocked.read_text() == ""


def test_a_folder_that_cannot_be_written(tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o500)
    right(folder)  # root may write all the same


def test_a_disk_that_is_full(tmp_path):
    code = program("""
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    check(fusion(2.0), 2.0)
    check(fusion(3.0), 3.0)
    print("right")
    """)
    folder = tmp_path / "kernels"
    warned = right(folder, code)
    assert len(warned.strip().splitlines()) <= 1
    assert all(len(content) == 0 for content in files(folder).values())
    right(folder)


@pytest.mark.parametrize("what", ["folder", "files"])
def test_what_others_may_write_is_not_believed(tmp_path, what):
    folder = tmp_path / "kernels"
    right(folder)
    for path in [folder] if what == "folder" else [folder / name for name in files(folder)]:
        path.chmod(0o777)
    right(folder)
    right(folder)


def test_a_file_of_somebody_else(tmp_path):
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    folder = tmp_path / "kernels"
    right(folder)
    for name in files(folder):
        os.chown(folder / name, 12345, 12345)
    right(folder)


def test_processes_that_compile_one_kernel_at_once(tmp_path):
    folder = tmp_path / "kernels"
    code = """
    import os
    running = []
    for _ in range(4):
        if (pid := os.fork()) == 0:
            break
        running.append(pid)
    if pid:
        print([os.waitpid(p, 0)[1] for p in running], flush=True)
        os._exit(0)
    """
    assert says(textwrap.dedent(code) + ONE, NVFUSER_GO_CACHE_DIR=str(folder)).split("\n")[-1] == str([0] * 4)
    assert kinds(files(folder)) == [".cubin", ".plan"]
    assert right(folder) == ""


def test_without_a_compiler_kernels_of_the_folder_still_run(tmp_path):
    folder = tmp_path / "kernels"
    right(folder)
    done = child(ONE, NVFUSER_GO_CACHE_DIR=str(folder), NVFUSER_GO_LIBNVRTC="/no/libnvrtc.so")
    # The version of the compiler is part of a file's name: without one, the error says where it was looked for.
    assert done.stdout.strip() == "right" or "/no/libnvrtc.so" in done.stderr


def test_messages_without_the_libraries():
    done = child(ONE, NVFUSER_GO_LIBCUDA="/no/libcuda.so")
    assert done.returncode == 1
    assert "/no/libcuda.so" in done.stderr
    assert "install" in done.stderr
    assert "goroutine" not in done.stderr


def test_an_interrupt_during_compilation():
    """Ctrl-C while many kernels are compiled: KeyboardInterrupt soon, and the process goes on."""
    code = program("""
    import os, signal, threading, time
    check(fusion(2.0), 2.0)
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True)
        y = x
        for k in range(400):
            y = fd.ops.add(fd.ops.sin(fd.ops.mul(y, 1.0 + k)), x)
        fd.add_output(y)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    try:
        fd.execute([torch.ones(3, device="cuda")])
        print("finished")
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - began < 1)
    time.sleep(0.5)
    check(fusion(3.0), 3.0)
    """)
    done = child(code)
    if "KeyboardInterrupt" in done.stderr and "finished" in done.stdout:
        return  # the signal came after the compilation
    assert done.stdout.strip() in ("interrupted True", "finished"), done.stderr


def test_the_device_after_a_context_of_another_library():
    """Calls leave torch's device as it was."""
    fd_device = torch.cuda.current_device()
    assert says(ONE) == "right"
    assert torch.cuda.current_device() == fd_device
