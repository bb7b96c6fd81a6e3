"""Processes that end or fork while threads run fusions of several phases."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# Each program gets these lines first.
BEGIN = """
import os, sys, threading, time
sys.path.insert(0, {folder!r})
import torch
from thread_programs import program
torch.set_num_threads(1)
"""


def run(code: str) -> subprocess.CompletedProcess:
    """A program in a process of its own, which must end within a minute."""
    text = BEGIN.format(folder=str(Path(__file__).parent)) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)


ENDS = {
    "simulated": "executed[i % 6].fd.execute(inputs[i % 6], _enable_options=['simulate'])",
    "cpu": "executed[i % 6].fd.execute(inputs[i % 6])",
    "made": "program(k := k + 1)",
    "planned": "program(k := k + 1).fd.execute(inputs[k % 6], _enable_options=['simulate'])",
}


@pytest.mark.parametrize("what", ENDS)
def test_exit_while_daemon_threads_run_phases(what: str) -> None:
    """The threads call torch only within runs: calls of their own abort the process, without fusions too. So outputs
    are kept, as freeing one is such a call: 4 of 60 processes aborted there, and none of 240 that keep them.
    """
    code = f"""
    executed, kept = [program(i) for i in range(6)], []
    inputs = [p.inputs() for p in executed]
    for p in executed:
        p.check(simulate=True)
        p.check(simulate=False)

    def work(i):
        k = 6 * 1000 * i
        while True:
            kept.append({ENDS[what]})

    for i in range(6):
        threading.Thread(target=work, args=(i,), daemon=True).start()
    time.sleep(0.3)
    print("leaving", flush=True)
    """
    # One may abort all the same, where all did before runs were waited for.
    ended = [run(code) for _ in range(3)]
    aborted = [done for done in ended if done.returncode]
    assert len(aborted) <= 1
    for done in ended:
        assert done.stdout == "leaving\n", done.stderr
        assert done.returncode in (0, -6) and (not done.returncode or "without an active exception" in done.stderr)


def test_a_fork_while_threads_run_phases() -> None:
    """Whatever the others held when the process forked, a call in the child raises, and the parent goes on."""
    done = run("""
    from nvfuser_go import FusionError, LRUCache
    executed = [program(i) for i in range(6)]
    for p in executed:
        p.check(simulate=True)
    # The child draws none: another thread may have held the lock of torch's generator, which a child never gets.
    inputs = [p.inputs() for p in executed]
    cache, ending, failures = LRUCache(2), threading.Event(), []

    def work(i):
        k = 1000 * (i + 1)
        try:
            while not ending.is_set():
                executed[i].check(simulate=True)
                p = program(k := k + 1)
                cache.cache_compile(p.fd.fusion).execute(p.inputs())
                cache.stats()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(5)]
    for thread in threads:
        thread.start()

    def raises(call):
        try:
            call()
        except FusionError as failure:
            return "spawn" in str(failure)
        return False

    for _ in range(40):
        child = os.fork()
        if child == 0:
            ok = raises(lambda: executed[5].fd.execute(inputs[5], _enable_options=["simulate"]))
            ok &= raises(lambda: executed[0].fd.execute(inputs[0]))
            ok &= raises(lambda: program(1)) and raises(lambda: cache.cache_compile(executed[0].fd.fusion))
            cache.stats()
            executed.clear()
            os._exit(0 if ok else 1)
        status = None
        for _ in range(2000):
            pid, state = os.waitpid(child, os.WNOHANG)
            if pid:
                status = os.waitstatus_to_exitcode(state)
                break
            time.sleep(0.005)
        if status is None:
            os.kill(child, 9)
            os.waitpid(child, 0)
        if status != 0:
            failures.append(f"a child ended with {status}")
            break
    ending.set()
    for thread in threads:
        thread.join()
    print(failures)
    executed[5].check(simulate=True)
    """)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stdout + done.stderr
