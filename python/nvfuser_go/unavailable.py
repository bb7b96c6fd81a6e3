"""The names of the interface that this build lacks: they can be imported, and fail when they are used."""

from collections.abc import Callable
from typing import Any, NoReturn

from nvfuser_go.errors import unsupported


def function(module: str, name: str) -> Callable[..., NoReturn]:
    """A function that raises Unsupported."""

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise unsupported(f"{module.rpartition('.')[2]}.{name}()")

    fail.__name__ = fail.__qualname__ = name
    fail.__module__ = module
    fail.__doc__ = "Raises Unsupported: this build lacks it."
    return fail


def kind(module: str, name: str, *class_methods: str) -> type:
    """A class whose construction, and whose class methods, raise Unsupported."""
    fail = function(module, name)

    def construct(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        fail(*args, **kwargs)

    body: dict[str, Any] = {
        "__init__": construct,
        "__module__": module,
        "__doc__": "Raises Unsupported: this build lacks it.",
    }
    body |= {method: staticmethod(function(module, f"{name}.{method}")) for method in class_methods}
    return type(name, (), body)
