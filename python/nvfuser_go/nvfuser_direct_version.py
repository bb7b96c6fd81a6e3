"""Versions as nvFuser's clients compare them."""

import re
from typing import Any

# The release of nvFuser whose interface this package has.
INTERFACE_VERSION = "0.2.36"


def Version(text: str) -> Any:
    """`text` as a packaging.version.Version; the package is imported when it is first needed."""
    from packaging.version import Version as Parsed

    return Parsed(str(text))


class NvfuserVersion(str):
    """A version that compares with strings, tuples of numbers and Versions; "+git..." does not count."""

    __slots__ = ()

    def _parsed(self) -> Any:
        return Version(re.sub(r"\+git.*", "", self))

    @staticmethod
    def _other(value: Any) -> Any:
        if isinstance(value, NvfuserVersion):
            return value._parsed()
        if isinstance(value, tuple | list):
            return Version(".".join(map(str, value)))
        if isinstance(value, str):
            return Version(re.sub(r"\+git.*", "", value))
        return value

    def __lt__(self, other: Any) -> bool:
        return self._parsed() < self._other(other)

    def __le__(self, other: Any) -> bool:
        return self._parsed() <= self._other(other)

    def __gt__(self, other: Any) -> bool:
        return self._parsed() > self._other(other)

    def __ge__(self, other: Any) -> bool:
        return self._parsed() >= self._other(other)

    def __eq__(self, other: object) -> bool:
        return self._parsed() == self._other(other)

    def __ne__(self, other: object) -> bool:
        return self._parsed() != self._other(other)

    def __hash__(self) -> int:
        return hash(self._parsed())


__version__ = NvfuserVersion(INTERFACE_VERSION)
