"""Writes special.txt: values of NumPy where a part is zero, infinite or NaN.

A line is a name, the parts of the argument and the parts of the value. Run:
python special.py > special.txt
"""

import itertools

import numpy as np

FUNCTIONS = {
    "Exp": np.exp, "Log": np.log, "Sqrt": np.sqrt, "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Sin": np.sin,
    "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan, "Asinh": np.arcsinh,
    "Acosh": np.arccosh, "Atanh": np.arctanh,
}  # fmt: skip

np.seterr(all="ignore")
for name, f in FUNCTIONS.items():
    for x, y in itertools.product([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan], repeat=2):
        z = np.empty((), np.complex128)
        z.real, z.imag = x, y  # x + y * 1j would multiply the infinities
        value = f(z)
        print(name + "Complex", *(repr(float(part)) for part in (x, y, value.real, value.imag)))
