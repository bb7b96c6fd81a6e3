"""Starts programs that need torch in a fraction of the time that importing it takes.

A process with torch and nothing else waits for programs; each runs in a fork of it, as a main module of its own up to
the end of the interpreter. Neither CUDA nor nvfuser_go may be there before the fork: neither survives one.

    zygote.py                # reads {"code": ..., "environment": ..., "out": ..., "err": ...}, a line each, and answers
                             # with the number of the process, and later with its exit status, a line each
"""

import importlib
import json
import os
import sys


def serve() -> str | None:
    """In the zygote: None, at the end. In a fork: the program to run."""
    importlib.import_module("torch")
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os.environ.update(request["environment"])
            os.setsid()
            null = os.open(os.devnull, os.O_RDONLY)
            files = [os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in ("out", "err")]
            for number, file in enumerate([null, *files]):
                os.dup2(file, number)
                os.close(file)
            return request["code"]
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


if __name__ == "__main__":
    program = serve()
    if program is not None:
        for name in ("serve", "importlib", "json", "program"):
            code = globals().pop(name)
        exec(compile(code, "<program>", "exec"), globals())
