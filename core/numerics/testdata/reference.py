"""Writes reference.txt: values of the functions under test by mpmath, at 60 digits.

A line is a name, the parts of the argument and the parts of the value, as
hexadecimal float64 numbers. Run: python reference.py > reference.txt
"""

import random

import mpmath as mp

mp.mp.dps = 60
random.seed(1)


def write(name, arguments, values):
    parts = [float(p) for p in arguments] + [float(p) for p in values]
    print(name, *(p.hex() for p in parts))


def inverse_erfc(x):
    """Newton's method on the logarithm of erfc, which is nearly a parabola."""
    x = mp.mpf(x)
    y = mp.erfinv(1 - x) if x > 1e-10 else mp.sqrt(-mp.log(x))
    for _ in range(60):
        c = mp.erfc(y)
        step = (mp.log(c) - mp.log(x)) * c * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
        y += step
        if abs(step) < mp.mpf(10) ** -50 * abs(y):
            break
    return y


def real(name, f, arguments):
    for x in arguments:
        write(name, [x], [f(mp.mpf(x))])


def sigmoid(z):
    return 1 / (1 + mp.exp(-z))


uniform = [random.uniform(0, 1) for _ in range(20)]
real(
    "ErfcInv",
    inverse_erfc,
    [5e-324, 3e-320, 1e-300, 1e-100, 1e-20, 1e-10, 1e-3, 0.1, 0.4999, 0.5, 0.75, 0.999, 1.001, 1.5, 1.9, 1.999999]
    + [2 * u for u in uniform]
    + [u**20 for u in uniform],
)
real("ErfInv", mp.erfinv, [1e-300, 1e-10, 0.1, 0.5, 0.84, 0.86, 0.99, 0.999999, -0.3] + uniform)
positive = [5e-324, 1e-310, 1e-300, 0.3, 0.5, 0.999999, 1 - 1e-13, 1 + 1e-13, 1.0000001, 1.9999, 2, 3, 1e10, 1e300]
real("Log", mp.log, positive)
real("Log2", lambda x: mp.log(x) / mp.log(2), positive)
real("Log10", mp.log10, positive)
fractions = [5e-324, 1e-300, 1e-10, 0.3, 0.5, 0.7, 0.9, 0.9999, 1 - 1e-9, 1 - 1e-14, -1e-5, -0.6, -0.99999, 1e-10 - 1]
real("Asin", mp.asin, fractions)
real("Acos", mp.acos, fractions)
real(
    "Lgamma",
    lambda x: mp.log(abs(mp.gamma(x))) if abs(x) < 1e4 else mp.re(mp.loggamma(x)),
    [
        5e-324,
        -1e-310,
        1e-300,
        1e-5,
        0.5,
        0.999,
        1.001,
        1.5,
        1.999,
        2.001,
        3,
        10.5,
        171.5,
        1e4,
        1e10,
        1e300,
        -0.5,
        -1.5,
        -3.7,
        -10.1,
        -100.3,
    ],
)
real("Sigmoid", sigmoid, [-745, -710, -700, -30, -1, -1e-10, 1e-10, 0.5, 1, 20, 36, 40, 800])
real("Silu", lambda x: x * sigmoid(x), [-700, -30, -1, -1e-10, 1e-10, 0.5, 1, 20, 40, 800])

points = [complex(random.gauss(0, 1.5), random.gauss(0, 1.5)) for _ in range(12)]
points += [
    complex(random.choice([-1, 1]) * 10 ** random.uniform(-9, 2), random.choice([-1, 1]) * 10 ** random.uniform(-9, 2))
    for _ in range(12)
]
near_one = [complex(s * (1 + d), e) for s in (-1, 1) for d in (-1e-8, 0.0, 1e-13) for e in (1e-4, -1e-20)]
circle = [
    complex(0.6, 0.8),
    complex(0.8, -0.6000000001),
    complex(0.5, 0.866025403784438),
    complex(0.70710678118, 0.70710678119),
]
extreme = [
    complex(5e-324, 1e-310),
    complex(1e-200, 1e-200),
    complex(1e-200, 3),
    complex(0.3, 1e-200),
    complex(3, 1e-200),
    complex(-1e-300, 1e-310),
]
huge = [
    complex(1e200, 1e200),
    complex(-1e200, 3),
    complex(3, 1e200),
    complex(1e300, -1e-300),
    complex(1.7e308, 1.7e308),
]
edge = [complex(709.5, 1), complex(-709.9, 1.5), complex(710.3, 0.8), complex(-720, 2)]
poles = [
    complex(1e-8, 1.5707963),
    complex(-1e-12, -1.57079632679),
    complex(1e-3, 3.14159265),
    complex(25, 1),
    complex(-19.9, 2),
    complex(16, 1),
]

mp_functions = {
    "Exp": mp.exp, "Log": mp.log, "Sqrt": mp.sqrt, "Sinh": mp.sinh, "Cosh": mp.cosh, "Tanh": mp.tanh, "Sin": mp.sin,
    "Cos": mp.cos, "Tan": mp.tan, "Asin": mp.asin, "Acos": mp.acos, "Atan": mp.atan, "Asinh": mp.asinh,
    "Acosh": mp.acosh, "Atanh": mp.atanh, "Reciprocal": lambda z: 1 / z, "Rsqrt": lambda z: 1 / mp.sqrt(z),
    "Sigmoid": sigmoid, "Sign": lambda z: z / abs(z),
}  # fmt: skip
inverse = {"Log", "Sqrt", "Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh"}
for name, f in mp_functions.items():
    arguments = points + near_one + circle
    if name != "Sigmoid":  # which has its own and is not accurate there
        arguments = arguments + poles
    if name in inverse:
        arguments = arguments + extreme + huge
    if name in ("Exp", "Sinh", "Cosh", "Tanh"):
        arguments = arguments + edge
    if name == "Atanh":
        arguments = arguments + [complex(1, 25), complex(-1, 1e-170), complex(1, 1e100)]
    for z in arguments:
        # Such arguments lose hundreds of digits on the way.
        mp.mp.dps = (
            800 if name in inverse and max(abs(mp.log(abs(p))) if p else 0 for p in (z.real, z.imag)) > 60 else 60
        )
        if mp.isinf(value := f(mp.mpc(z))):
            continue
        write(name + "Complex", [z.real, z.imag], [value.real, value.imag])
mp.mp.dps = 60

exponents = [complex(2, 0), complex(-1, 0), complex(0.5, 0), complex(3, -1), complex(0, 1), complex(-2.5, 4)]
for i, z in enumerate(points):
    y = exponents[i % len(exponents)]
    value = mp.power(mp.mpc(z), mp.mpc(y))
    write("PowComplex", [z.real, z.imag, y.real, y.imag], [value.real, value.imag])

powers = []
for _ in range(40):
    x = mp.exp(random.uniform(-10, 10))
    powers.append((float(x), float(random.uniform(-600, 600) / mp.log(x))))
for d in (3e-10, 1.2e-7, 1e-5, 2.0**-52, -1e-9):  # where the error of log is multiplied most
    powers.append((1 + d, float(random.choice([-1, 1]) * random.uniform(300, 700) / mp.log(mp.mpf(1 + d)))))
powers += [(random.uniform(0.5, 40), float(n)) for n in (2, 3, -1, -2, 7, -13, 63, -64, 65, 100, -101)]
powers += [(3.0, 2.0), (10.0, -2.0), (5e-324, -0.75), (1e-310, 0.9), (1.7e308, 0.99), (1.5, 1750.0), (0.7, 2080.5)]
for x, y in powers:
    write("Pow", [x, y], [mp.power(mp.mpf(x), mp.mpf(y))])
for _ in range(20):  # where the logarithm has the longest series
    x = float(random.choice([random.uniform(0.71, 0.75), random.uniform(1.35, 1.41)]))
    write("Pow", [x, y := float(random.uniform(-705, 705) / mp.log(x))], [mp.power(mp.mpf(x), mp.mpf(y))])
small = [1e-300, 1e-9, -9.9e-8, 1.2e-7, 9e-7, 1e-6, 0.3, -1.5, 1.5707963, 3.0]
real("Tan", mp.tan, small)
real("Sinh", mp.sinh, small + [-30.0, 709.5, -710.2, 710.4])
real("Cosh", mp.cosh, small + [-30.0, 709.5, -710.2, 710.4])
near_zero = points + [
    complex(1e-9, 1e-5),
    complex(-1e-9, 3e-5),
    complex(-0.1, 0.43),
    complex(1e-12, -2),
    complex(1e-300, 1e-200),
]
for z in near_zero:
    exponential, logarithm = mp.expm1(mp.mpc(z)), mp.log1p(mp.mpc(z))
    write("Expm1Complex", [z.real, z.imag], [exponential.real, exponential.imag])
    write("Log1pComplex", [z.real, z.imag], [logarithm.real, logarithm.imag])
