"""The exceptions of the package.

Every mistake in a program raises one of these with a text that names the argument, its value and the rule. Each is also
the builtin exception that one would expect, so that `except ValueError` works.
"""

import contextlib
from collections.abc import Iterator


class FusionError(RuntimeError):
    """The base of all errors of the package. Raised itself when a fusion cannot be compiled or run."""


class InvalidArgument(FusionError, ValueError):
    """A value breaks a rule."""


class InvalidType(FusionError, TypeError):
    """An argument, or the elements of a tensor, are of a type that is not taken."""


class Unsupported(FusionError, NotImplementedError):
    """The program is right, and this build or this machine cannot run it.

    `refusals` lists why each way of doing it was not possible: tuples (by, rule, tensor, sentence).
    """

    def __init__(self, text: str, refusals: list[tuple[str, str, str, str]] | None = None) -> None:
        super().__init__(text)
        self.refusals = list(refusals or [])


class MissingDefinition(FusionError, NotImplementedError):
    """A FusionDefinition is used before it defines anything."""


NO_FUSION = "Fusion does not exist! Use `with FusionDefinition() as fd: ...` to define a fusion."
EMPTY_FUSION = "Fusion is empty!"


@contextlib.contextmanager
def renamed(inner: str, outer: str) -> Iterator[None]:
    """Lets errors that name the call `inner` name `outer` instead, which the program called."""
    try:
        yield
    except (InvalidArgument, InvalidType) as error:
        text = str(error)
        if not text.startswith(f"{inner}(): "):
            raise
        raise type(error)(outer + text.removeprefix(inner)) from None


def unsupported(what: str) -> Unsupported:
    """The error of a part of the nvFuser interface that this build lacks."""
    return Unsupported(f"{what} is not supported by this build of nvfuser_go")
