"""A GPU fusion compiler: define a fusion of tensor operations, run it on torch tensors."""

from nvfuser_go import _C

__version__ = _C.version()

__all__ = ["__version__"]
