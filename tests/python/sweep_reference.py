"""What torch computes for a row of the op table, and how near a result must be to it.

The row's torch expression is evaluated in double precision (int64, complex128)
on operands that were converted to the type that the op computes in, and the
result is rounded to the type of the result once. So the reference is nearer to
the exact value than torch's own float32 functions are.
"""

import math
import warnings

import numpy as np
import torch
from sweep_values import COMPLEXES, FLOATS, INTEGERS, NARROW, TORCH

from nvfuser_go import DataType

D = DataType

NARROW_TORCH = {TORCH[d] for d in NARROW}
FLOAT_TORCH = {TORCH[d] for d in FLOATS}

# Rows whose result depends on the type that it is computed in, not only on the values.
IN_OWN_TYPE = {"nextafter", "addcmul"}


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type that references are computed in for elements of dtype."""
    if dtype in FLOAT_TORCH:
        return torch.float64
    if dtype.is_complex:
        return torch.complex128
    return torch.int64 if dtype is torch.uint64 else dtype


def widened(x: torch.Tensor) -> torch.Tensor:
    if x.dtype is torch.uint64:
        return x.contiguous().view(torch.int64)  # the same bits: torch has few operations on uint64
    if x.dtype is torch.float8_e8m0fnu:
        x = x.to(torch.float32)
    return x.to(wide(x.dtype))


def narrowed(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A reference result as the type of the result."""
    if dtype is torch.uint64 and x.dtype is torch.int64:
        return x.contiguous().view(torch.uint64)
    if dtype in NARROW_TORCH and x.dtype is torch.float64:
        x = x.to(torch.float32)
    return saturated(x, dtype).to(dtype)


def saturated(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """x, within the range of dtype where that has no infinity: some versions of torch make a NaN of what is beyond."""
    if dtype is not torch.float8_e4m3fn or not x.is_floating_point():
        return x
    return x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max)


# Rows that may give either zero where both are right.
EITHER_ZERO = {"maximum", "minimum", "clamp", "erfcinv", "relu", "lerp", "_sum_parts", "_sum_slices"}

# ---- Promotion ----


def promoted(a: torch.dtype, b: torch.dtype) -> torch.dtype:
    """torch.promote_types, which does not take a Bool beside a UInt64."""
    if torch.uint64 in (a, b) and torch.bool in (a, b):
        return torch.uint64
    return torch.promote_types(a, b)


def common_type(operands: list) -> torch.dtype:
    """torch's common type of tensors and numbers, floats narrower than float32 counting as that."""

    def widen(d: torch.dtype) -> torch.dtype:
        return torch.float32 if d in NARROW_TORCH else d

    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    numbers = [x for x in operands if not isinstance(x, torch.Tensor)]
    groups = []
    for shape, members in (((1,), [x for x in tensors if x.ndim]), ((), [x for x in tensors if not x.ndim])):
        kinds = [widen(x.dtype) for x in members]
        if kinds:
            common = kinds[0]
            for k in kinds[1:]:
                common = promoted(common, k)
            groups.append(torch.zeros(shape, dtype=common))
    common = torch.result_type(*groups) if len(groups) == 2 else groups[0].dtype
    stand_in = torch.zeros(groups[0].shape, dtype=common)
    for x in numbers:
        common = torch.promote_types(common, torch.result_type(stand_in, x))
    return common


def compute_type(row: dict, operands: list) -> torch.dtype:
    """The type that an elementwise row computes in."""
    rule = row["compute"]
    if rule == "bool":
        return torch.bool
    if rule == "keep":
        return operands[0].dtype
    common = common_type(operands)
    if rule == "float" and not (common.is_floating_point or common.is_complex):
        return torch.float32
    if rule == "integer" and common is torch.bool:
        return torch.int64
    return common


def result_type(row: dict, compute: torch.dtype) -> torch.dtype:
    """The type of an elementwise row's result."""
    kind = row["result"]
    if kind == "bool":
        return torch.bool
    if kind == "real" and compute.is_complex:
        return torch.float64 if compute is torch.complex128 else torch.float32
    if kind == "complex":
        return torch.complex128 if compute is torch.float64 else torch.complex64
    return compute


def accumulated(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_floating_point or dtype.is_complex or dtype is torch.uint64:
        return dtype
    return torch.int64


# ---- Evaluation ----

compiled: dict = {}


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """numpy's has another zero where x is -0.0."""
    m = np.fmod(x, y)
    return np.where((m != 0) & ((m < 0) != (y < 0)), m + y, m)


# Where torch is not exact in double precision: its fmod gives NaN for subnormal divisors, its sqrt an ulp too much.
EXACT = {"fmod": np.fmod, "mod": np.fmod, "remainder": remainder, "sqrt": np.sqrt}


def evaluate(row: dict, env: dict):
    exact = EXACT.get(row["name"])
    if exact and all(x.dtype is torch.float64 for x in env.values()):
        with np.errstate(all="ignore"):
            return torch.from_numpy(np.asarray(exact(*(x.numpy() for x in env.values()))))
    expression = row["torch"]
    if expression not in compiled:
        compiled[expression] = compile(expression, f"<torch expression of {row['name']}>", "eval")
    return eval(compiled[expression], {"torch": torch, "F": torch.nn.functional, **env})


def elementwise(row: dict, args: dict) -> list[torch.Tensor]:
    names = [p["name"] for p in row["overloads"][-1] if p["kind"] == "operand"]
    given = [n for n in names[row["skip"] :] if args.get(n) is not None]
    compute = compute_type(row, [args[n] for n in given])
    env = dict.fromkeys(names)
    for n in names:
        x = args.get(n)
        if x is None:
            continue
        if n not in given:
            env[n] = x.bool() if isinstance(x, torch.Tensor) else torch.tensor(bool(x))
            continue
        if not isinstance(x, torch.Tensor):
            x = torch.tensor(x, dtype=compute if compute is not torch.uint64 else torch.int64)
        x = x.to(torch.float32) if x.dtype is torch.float8_e8m0fnu and compute not in NARROW_TORCH else x
        x = x.to(compute)
        env[n] = x if row["name"] in IN_OWN_TYPE and x.dtype is not torch.uint64 else widened(x)
    return [narrowed(evaluate(row, env), result_type(row, compute))]


def cast(row: dict, args: dict) -> list[torch.Tensor]:
    x, to = args["arg"], TORCH[args["dtype"]]
    if (x.dtype in FLOAT_TORCH and to in NARROW_TORCH) or x.dtype is torch.float8_e8m0fnu:
        x = x.to(torch.float32)
    if x.is_complex() and not to.is_complex:
        x = torch.view_as_real(x if to is not torch.bool else (x != 0) + 0j)[..., 0]
    if to is torch.float8_e4m3fn:
        x = saturated(x.to(torch.float32), to)
    return [x.to(to)]


def identity(row: dict, dtype: torch.dtype):
    """What max and min give for no elements."""
    largest = row["name"] == "min"
    if dtype is torch.bool:
        return largest
    if dtype in FLOAT_TORCH:
        x = torch.tensor(float("inf") if largest else float("-inf"))
        return saturated(x, dtype).to(dtype).to(torch.float64).item()
    if dtype is torch.uint64:
        return -1 if largest else 0
    info = torch.iinfo(dtype)
    return info.max if largest else info.min


def reduction(row: dict, args: dict) -> list[torch.Tensor]:
    x, keepdim = args["arg"], args.get("keepdim", False)
    dims = args.get("dims", args.get("dim"))
    dims = list(range(x.ndim)) if dims is None else [dims] if isinstance(dims, int) else list(dims)
    dims = sorted(d % max(x.ndim, 1) for d in dims)
    name = row["name"]
    if name in ("sum", "prod"):
        to = TORCH[args["dtype"]] if args.get("dtype") not in (None, D.Null) else accumulated(x.dtype)
        x = x.to(torch.float32) if x.dtype is torch.float8_e8m0fnu else x
        x = x.real if x.is_complex() and not to.is_complex else x
        x = x.to(to)
    else:
        to = x.dtype
    value = widened(x)
    if not dims:
        return [narrowed(value, to)]
    count = 1
    for d in dims:
        count *= x.shape[d]
    if count == 0 and name in ("max", "min"):
        kept = [1 if d in dims else n for d, n in enumerate(x.shape)]
        out = torch.full(kept, identity(row, to), dtype=value.dtype).squeeze(dims)
    else:
        out = evaluate(row, {"arg": value, "dims": dims, "dtype": value.dtype})
    if keepdim:
        for d in dims:
            out = out.unsqueeze(d)
    return [narrowed(out, to)]


def moments(row: dict, args: dict) -> list[torch.Tensor]:
    x = args["arg"]
    to = torch.float32 if x.dtype in NARROW_TORCH else x.dtype
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*degrees of freedom")  # of 0, whose NaN the row gives too
        out = evaluate(row, {"correction": 1, "keepdim": False, **args, "arg": widened(x), "dims": list(args["dims"])})
    out = [out] if isinstance(out, torch.Tensor) else list(out)
    return [narrowed(o, torch.int64 if i == 2 else to) for i, o in enumerate(out)]


def exponentials(args: dict) -> list[torch.Tensor]:
    x, dims = widened(args["arg"]), [d % args["arg"].ndim for d in args["dims"]]
    to = torch.float32 if args["arg"].dtype in NARROW_TORCH else args["arg"].dtype
    if any(x.shape[d] == 0 for d in dims):
        shape = [n for d, n in enumerate(x.shape) if d not in dims]
        return [torch.full(shape, -math.inf, dtype=to), torch.zeros(shape, dtype=to)]
    largest = x.amax(dims, keepdim=True)
    return [narrowed(largest.squeeze(dims), to), narrowed((x - largest).exp().sum(dims), to)]


def result_types(row: dict, args: dict) -> list[torch.dtype]:
    """The element types of the results of a row that is not elementwise."""
    name = row["name"]
    first = next((x for x in args.values() if isinstance(x, torch.Tensor)), None)
    if name in ("cumsum", "cumprod"):
        return [accumulated(first.dtype)]
    if name == "argsort":
        return [torch.int64]
    if name == "_group_positions":
        return [torch.int64, torch.int64]
    if name == "_sum_parts":
        return [torch.float32 if args["value"].dtype in NARROW_TORCH else args["value"].dtype]
    if name == "topk":
        return [first.dtype, torch.int64]
    if name == "embedding_fwd":
        return [args["weight"].dtype]
    if name == "cat":
        return [args["tensors"][0].dtype]
    if name == "sdpfa_fwd":
        lse = torch.float64 if first.dtype is torch.float64 else torch.float32
        return [first.dtype, lse, torch.uint64, torch.uint64]
    if name == "sdpfa_bwd":
        return [first.dtype] * 3
    if first is None:
        return [TORCH[args.get("dtype", D.Int)]]
    return [first.dtype]


def other(row: dict, args: dict) -> list[torch.Tensor]:
    """The reference of any other row: operands are not promoted."""
    types = result_types(row, args)
    env = {}
    for p in row["overloads"][-1]:
        x = args.get(p["name"])
        if p["name"] not in args and p["default"] not in ("", "None"):
            x = eval(p["default"], {"DataType": DataType})
        if isinstance(x, torch.Tensor):
            x = widened(x)
        elif p["kind"] == "tensors":
            x = [widened(t) for t in x]
        elif isinstance(x, DataType):
            x = wide(TORCH[x])
        env[p["name"]] = x
    if row["name"] in ("cumsum", "cumprod"):
        env["arg"] = widened(args["arg"].to(types[0]))
    out = pad_complex(**env) if pads_with_complex(row, env) else evaluate(row, env)
    out = [out] if isinstance(out, torch.Tensor) else list(out)
    return [narrowed(o, t) for o, t in zip(out, types, strict=True)]


def pads_with_complex(row: dict, env: dict) -> bool:
    return row["name"] == "pad" and isinstance(env["value"], complex)


def pad_complex(arg: torch.Tensor, pad_widths: list[int], value: complex) -> torch.Tensor:
    """torch's pad takes no complex value."""
    pad = torch.nn.functional.pad
    return torch.complex(pad(arg.real, pad_widths, value=value.real), pad(arg.imag, pad_widths, value=value.imag))


def reference(row: dict, args: dict) -> list[torch.Tensor]:
    """The results of the row for concrete arguments."""
    name = row["name"]
    if name == "cast":
        return cast(row, args)
    if row["class"] == "elementwise" or name == "addcmul":
        return elementwise(row, args)
    if name in ("sum", "prod", "max", "min"):
        return reduction(row, args)
    if name in ("var", "var_mean", "welford"):
        return moments(row, args)
    if name == "_max_exp_sum":
        return exponentials(args)
    return other(row, args)


# ---- Comparison ----

ORDER = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def ordinal(x: torch.Tensor) -> torch.Tensor:
    """Integers in the order of the floats of x: neighbours differ by 1; both zeros are 0."""
    if x.element_size() == 1:
        bits = x.view(torch.uint8).to(torch.int64)
        if x.dtype is torch.float8_e8m0fnu:
            return bits
        return torch.where(bits >= 128, 128 - bits, bits)
    bits = x.view(ORDER[x.element_size()]).to(torch.int64)
    least = -(1 << (8 * x.element_size() - 1))
    return torch.where(bits < 0, least - bits, bits)


def difference(got: torch.Tensor, want: torch.Tensor, ulps: float, atol: float, zeros: bool) -> str | None:
    """Says where got is further from want than ulps units in the last place and atol; None: nowhere.

    With zeros, the sign of a zero counts.
    """
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, expected {tuple(want.shape)}"
    if got.is_complex():
        a, b = got.to(torch.complex128), want.to(torch.complex128)
        eps = 2.0**-52 if got.dtype is torch.complex128 else 2.0**-23
        near = (a - b).abs() <= b.abs() * eps * (ulps + 1) + atol
        ra, rb = torch.view_as_real(a), torch.view_as_real(b)
        # A number with a NaN part is not a number; torch's scaled addition makes the other part NaN too.
        same = (ra == rb).all(-1) | (a.isnan() & b.isnan())
        bad = ~(near | same)
    elif got.dtype in FLOAT_TORCH:
        got, want = got.contiguous(), want.contiguous()
        a, b = widened(got), widened(want)
        apart = (ordinal(got) - ordinal(want)).abs()
        bad = ~((apart <= ulps) | ((a - b).abs() <= atol))
        bad = torch.where(a.isnan() | b.isnan(), a.isnan() != b.isnan(), bad)
        if zeros:
            bad |= (a == 0) & (b == 0) & (a.signbit() != b.signbit())
    else:
        bad = got.view(torch.int64) != want.view(torch.int64) if got.dtype is torch.uint64 else got != want
    if not bad.any():
        return None
    where = tuple(int(i) for i in bad.nonzero()[0]) if got.ndim else ()
    return (
        f"at {where}: {got[where].item()!r}, expected {want[where].item()!r} ({int(bad.sum())} of {bad.numel()} differ)"
    )


assert set(INTEGERS) | set(FLOATS) | set(COMPLEXES) | {D.Bool} == set(TORCH)
