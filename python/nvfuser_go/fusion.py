"""Fusions, and the objects that compile and run them.

`Fusion` is a program: inputs, operations, outputs. `FusionExecutorCache` runs it. Programs usually meet both through
`FusionDefinition`; here they stand on their own, as nvFuser's interface has them.
"""

import operator
import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch

from nvfuser_go import _C, dump, explanation, options
from nvfuser_go.enums import DataType
from nvfuser_go.errors import FusionError, InvalidArgument, InvalidType, unsupported
from nvfuser_go.index_check import IndexChecks
from nvfuser_go.inputs import ANY_DEVICE, as_list, device_number, prepare
from nvfuser_go.pytorch_utils import data_type_of

if TYPE_CHECKING:
    from nvfuser_go.parameters import CompileParams, LaunchParams

FUNCTION_NAME = "nvfuser_fusion"


class Fusion:
    """A program of tensor operations: inputs, values, outputs. Equal if the programs are."""

    def __init__(self) -> None:
        self._core = _C.Fusion()

    @classmethod
    def parse(cls, text: str) -> "Fusion":
        """The fusion with this text form (see `text`). Raises InvalidArgument with the line number."""
        fusion = cls.__new__(cls)
        fusion._core = _C.Fusion.parse(text)
        return fusion

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fusion) and self.text() == other.text()

    __hash__ = None  # type: ignore[assignment] # it changes while it is defined

    def text(self) -> str:
        """The canonical text form: equal for equal programs, and read by `parse`."""
        return self._core.text()

    def python(self, name: str = FUNCTION_NAME) -> str:
        """A Python function called `name` that defines the fusion again."""
        return self._core.python(name)

    def __repr__(self) -> str:
        return self.python()

    def inputs(self) -> list[Any]:
        """The input tensors and scalars, in order."""
        return self._core.inputs()

    def outputs(self) -> list[Any]:
        """The output tensors, in order, those that are written into an input included."""
        return [tensor for tensor, _ in self._core.outputs()]

    def vals(self) -> list[Any]:
        """All tensors and scalars, in order of definition."""
        return self._core.vals()

    def exprs(self) -> list[Any]:
        """The operations that the outputs need, each after those that it reads."""
        return self._core.exprs()

    def add_input(self, value: Any) -> None:
        """Accepts a value that `define_tensor` or `define_scalar` made, which is an input already.

        Raises InvalidArgument for any other value.
        """
        if not any(value is known or _same(value, known) for known in self.inputs()):
            raise InvalidArgument(
                f"add_input(): {value} is not made by define_tensor() or define_scalar() of this fusion"
            )

    def add_output(self, output: Any, alias_input: Any = None) -> None:
        """Makes a tensor a result, or with `alias_input` what is written into the memory of that input."""
        self._core.add_output(output, alias_input)

    def print_math(self, from_outputs_only: bool = True) -> str:
        """The inputs, outputs and operations for reading, with axes and extents; all operations if not from outputs."""
        return self._core.math(from_outputs_only)

    def print_kernel(self, compile_params: "CompileParams | None" = None) -> str:
        """The CUDA kernel of the fusion by its schedule as it is now; one that nobody scheduled runs on one thread.

        Of compile_params the index_type counts. FusionExecutorCache.get_cuda_kernel() shows the kernel that a scheduler
        makes. Raises InvalidArgument for a schedule that is not legal and for another index type than Int and Int32,
        Unsupported if the schedule cannot be lowered.
        """
        index_type = None if compile_params is None else compile_params.index_type
        return self._core.kernel((DataType.Null if index_type is None else index_type).value)

    def verify(self) -> None:
        """Checks the invariants that the compiler relies on. Raises FusionError: a violation is a bug in nvfuser_go."""
        self._core.verify()

    def _complete(self) -> None:
        """Ends the definition: nothing can be added after it."""
        self._core.freeze()


def _same(value: Any, known: Any) -> bool:
    return type(value) is type(known) and hash(value) == hash(known)


def translate_fusion(fusion: Fusion) -> str:
    """The fusion as a Python function that defines it again."""
    return fusion.python()


_guards = threading.local()


class ActiveFusion:
    """Makes a fusion the one that `define_tensor` and operations without operands add to, on this thread.

    It lasts until it is released, or for a `with` block. It has no `__del__`, in which Python drops exceptions, that of
    Ctrl-C among them.
    """

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion
        self._thread = threading.get_ident()
        self._active = False
        self._push()

    def _push(self) -> None:
        if not self._active:
            _C.push_fusion(self._fusion._core)
            _stack().append(self._fusion)
            self._active = True

    def release(self) -> None:
        """Ends the guard, if it has not ended."""
        if not self._active or threading.get_ident() != self._thread:
            return
        self._active = False
        stack = _stack()
        for i in reversed(range(len(stack))):
            if stack[i] is self._fusion:
                del stack[i]
                break
        _C.pop_fusion(self._fusion._core)

    def __enter__(self) -> Self:
        self._push()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class FusionGuard(ActiveFusion):
    """An ActiveFusion that lasts until it is deleted, too."""

    def __del__(self) -> None:
        # Attributes may be missing: the constructor may have failed.
        if getattr(self, "_active", False) and _C is not None:
            self.release()


def _stack() -> list[Fusion]:
    if not hasattr(_guards, "stack"):
        _guards.stack = []
    return _guards.stack


def current_fusion() -> Fusion:
    """The fusion that is being defined on this thread. Raises InvalidArgument if there is none."""
    stack = _stack()
    if not stack:
        raise InvalidArgument("no fusion is being defined: use `with FusionDefinition() as fd:` or a FusionGuard")
    return stack[-1]


def compute_tensor_descriptor(
    sizes: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[bool | None, ...], tuple[int, ...]]:
    """The contiguity and the stride order of a tensor with these sizes and strides, in elements.

    Dimensions are ordered by descending stride, equal ones as they come; a dimension of stride 0 stays at its logical
    position. Contiguity is listed in that order; it is None for dimensions of size 1 or stride 0, and else tells
    whether the stride is that of a dense layout of the dimensions inside. stride_order[i] is the rank of dimension i,
    0 being the fastest.

    Raises InvalidType for what is no list of ints, InvalidArgument for lengths that differ and for negative sizes and
    strides.
    """
    return _descriptor("compute_tensor_descriptor()", sizes, strides)


def _descriptor(
    where: str, sizes: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[bool | None, ...], tuple[int, ...]]:
    """compute_tensor_descriptor() with errors of the function `where`."""
    sizes, strides = _integers(where, "sizes", sizes), _integers(where, "strides", strides)
    if len(sizes) != len(strides):
        raise InvalidArgument(f"{where}: sizes has length {len(sizes)} and strides {len(strides)}; they must be equal")
    for name, values in (("sizes", sizes), ("strides", strides)):
        for i, n in enumerate(values):
            if n < 0:
                raise InvalidArgument(f"{where}: {name}[{i}] is {n}, which is negative")
    rank = len(sizes)
    moving = iter(sorted((i for i in range(rank) if strides[i] != 0), key=lambda i: -strides[i]))
    in_memory = [next(moving) if strides[i] != 0 else i for i in range(rank)]
    contiguity: list[bool | None] = [None] * rank
    stride_order = [0] * rank
    dense = 1
    for position in reversed(range(rank)):
        i = in_memory[position]
        stride_order[i] = rank - 1 - position
        if sizes[i] != 1 and strides[i] != 0:
            contiguity[position] = strides[i] == dense
            dense = strides[i] * sizes[i]
    return tuple(contiguity), tuple(stride_order)


def define_tensor(*args: Any, **kwargs: Any) -> Any:
    """Adds an input tensor to the fusion that is being defined; see FusionDefinition.define_tensor."""
    return add_tensor(current_fusion(), args, kwargs)


def define_scalar(value: Any = None, dtype: DataType | None = None) -> Any:
    """Adds an input scalar to the fusion that is being defined, or gives a constant.

    See FusionDefinition.define_scalar.
    """
    return add_scalar(current_fusion(), value, dtype)


_FORMS = (
    ("shape", "contiguity", "dtype", "is_cpu", "stride_order"),
    ("sizes", "strides", "dtype", "static_sizes", "is_cpu"),
)


def _integers(where: str, name: str, values: Any) -> list[int]:
    try:
        return [operator.index(n) for n in values]
    except TypeError:
        raise InvalidType(f"{where}: {name} must be a list of ints, got {values!r}") from None


def _data_type(where: str, dtype: Any) -> DataType:
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, torch.dtype):
        return data_type_of(dtype, f"{where}: dtype is")
    raise InvalidType(f"{where}: dtype must be a DataType, got {dtype!r}")


def _is_strides(values: Any) -> bool:
    """Whether the second argument by position is strides: numbers that are not all bools or None."""
    return isinstance(values, list | tuple | torch.Size) and not all(v is None or isinstance(v, bool) for v in values)


def add_tensor(fusion: Fusion, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Adds the input tensor that the arguments of define_tensor describe."""
    by_strides = not kwargs.keys().isdisjoint(("sizes", "strides", "static_sizes")) or (
        len(args) > 1 and _is_strides(args[1])
    )
    names = _FORMS[by_strides]
    if len(args) > len(names):
        raise InvalidType(f"define_tensor() takes at most {len(names)} arguments, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise InvalidType(f"define_tensor() has no argument {name!r}; its arguments are {', '.join(names)}")
        if name in given:
            raise InvalidType(f"define_tensor() got argument {name!r} twice")
        given[name] = value
    if names[0] not in given or (by_strides and "strides" not in given):
        raise InvalidType(f"define_tensor() needs argument {names[1] if names[0] in given else names[0]!r}")
    dtype = _data_type("define_tensor()", given.get("dtype", DataType.Float))
    is_cpu = bool(given.get("is_cpu", False))
    shape = _integers("define_tensor()", names[0], given[names[0]])
    if by_strides:
        contiguity, stride_order = _descriptor("define_tensor()", shape, given["strides"])
        if not given.get("static_sizes", False):
            shape = [n if n in (0, 1) else -1 for n in shape]
    else:
        contiguity = given.get("contiguity", False)
        stride_order = _integers("define_tensor()", "stride_order", given.get("stride_order") or ())
        if isinstance(contiguity, bool):
            contiguity = [None if n == 1 else contiguity for n in _in_memory_order(shape, stride_order)]
        elif not isinstance(contiguity, list | tuple):
            raise InvalidType(
                f"define_tensor(): contiguity must be a bool, or a list of bools and None, got {contiguity!r}"
            )
    return _define(fusion, shape, list(contiguity), dtype, is_cpu, list(stride_order))


def _in_memory_order(shape: list[int], stride_order: Sequence[int]) -> list[int]:
    """The sizes from the slowest dimension to the fastest."""
    if sorted(stride_order) != list(range(len(shape))):  # none, or wrong, which is reported later
        return shape
    return [size for _, size in sorted(zip(stride_order, shape, strict=True), reverse=True)]


def _define(
    fusion: Fusion, shape: list[int], contiguity: list[Any], dtype: DataType, is_cpu: bool, stride_order: list[int]
) -> Any:
    if dtype is DataType.Float4_e2m1fn_x2 and shape:
        # Two elements share a byte, and the fusion counts elements.
        dtype = DataType.Float4_e2m1fn
        fastest = stride_order.index(0) if 0 in stride_order else len(shape) - 1
        if shape[fastest] > 0:
            shape = [2 * n if i == fastest else n for i, n in enumerate(shape)]
    return fusion._core.define_tensor(shape, contiguity, dtype.value, is_cpu, stride_order or None)


def add_scalar(fusion: Fusion, value: Any, dtype: DataType | None) -> Any:
    """Adds an input scalar if `value` is None or a DataType, else gives the constant."""
    if isinstance(value, DataType):
        if dtype is not None:
            raise InvalidType(f"define_scalar(): value must be a number or None, got {value!r}")
        value, dtype = None, value
    if dtype is not None:
        dtype = _data_type("define_scalar()", dtype)
    if value is None:
        return fusion._core.define_scalar((dtype or DataType.Double).value)
    return fusion._core.constant(value, -1 if dtype is None else dtype.value)


class FusionExecutorCache:
    """Compiles a fusion for the inputs it meets and runs it.

    It has a copy of the fusion: what is added to the original later does not count. Equal fusions share the compiled
    programs of the process. May be used from several threads.
    """

    def __init__(self, fusion: Fusion, fusion_id: int = 0, auto_schedule: bool = True) -> None:
        if not auto_schedule:
            raise unsupported("FusionExecutorCache(auto_schedule=False)")
        if not isinstance(fusion, Fusion):
            raise InvalidType(f"FusionExecutorCache(): fusion must be a Fusion, got {fusion!r}")
        if not fusion._core.frozen:
            fusion = Fusion.parse(fusion.text())
            fusion._complete()
        self._fusion = fusion
        self.fusion_id = fusion_id
        given = options.environment()
        if "verify" in given.enable:
            fusion.verify()
        self._dumps = dump.OfInputs(fusion, given.dump) if given.dump else None
        inputs = fusion.inputs()
        self._aliased = frozenset(
            i
            for _, alias in fusion._core.outputs()
            if alias is not None
            for i, x in enumerate(inputs)
            if _same(x, alias)
        )
        # By what options ask for: see _executor_that.
        self._executors: dict[tuple[int | None, bool, bool, bool, bool], _C.Executor] = {}
        self._checks: IndexChecks | None = None
        self._is_checked = options.checks_indices(given)
        self._executor = self._executor_that(given)

    def execute(
        self,
        inputs: Iterable[Any],
        *,
        device: Any = None,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
    ) -> list[Any]:
        """Runs the fusion on the inputs and returns its outputs; see FusionDefinition.execute."""
        executor, is_checked = self._executor, self._is_checked
        if _enable_options or _disable_options:
            given = options.for_call(_enable_options, _disable_options)
            if "verify" in given.enable:
                self._fusion.verify()
            executor, is_checked = self._executor_that(given), options.checks_indices(given)
        if self._dumps is not None:
            inputs = as_list(inputs, "execute()")
            self._dumps.show(executor, prepare(inputs, self._aliased)[0])
        number = ANY_DEVICE if device is None else device_number(device)
        if is_checked:
            return self._index_checks().execute(executor, inputs, number)
        return executor.execute(inputs, number)

    @property
    def runs_alone(self) -> bool:
        """Whether a run without options is the executor's and no more."""
        return self._dumps is None and not self._is_checked

    def _index_checks(self) -> IndexChecks:
        if self._checks is None:  # of two threads that make one, either is used
            self._checks = IndexChecks(self._fusion._core)
        return self._checks

    def _executor_that(self, given: options.Options) -> _C.Executor:
        serial, apart, exact = options.serial(given), options.apart(given), options.exact(given)
        simulates, is_checked = options.simulated(given), options.checks_indices(given)
        key = simulates, serial, apart, exact, is_checked
        known = self._executors.get(key)
        if known is None:  # of two threads that make one, both use the first
            fusion = self._index_checks().fusion if is_checked else self._fusion._core
            made = _C.executor(fusion, simulates, self._aliased, serial, apart, exact)
            known = self._executors.setdefault(key, made)
        return known

    def fusion(self) -> Fusion:
        """The fusion that is run. It cannot be changed."""
        return self._fusion

    def is_compiled(self, inputs: Iterable[Any], device: int = 0) -> bool:
        """Whether inputs of this description run without compiling: always on the CPU, else if their kernels are there.

        Kernels of other sizes serve too, where they come out the same, and so does machine code on disk. `device` makes
        no difference: the inputs tell. Raises what execute() raises for inputs that do not fit.
        """
        return self._executor.is_compiled(prepare(inputs)[0])

    def get_cuda_kernel(self, inputs: Iterable[Any], intrinsic_code: bool = False, device: int = 0) -> str:
        """The CUDA kernel for inputs of this description.

        It is that of their device. Where the fusion runs on the CPU, it is the one for compute capability 9.0 and
        tensors that begin at multiples of 16 bytes. With intrinsic_code it begins with the device functions that it
        uses, and is all that a compiler needs. `device` makes no difference: the inputs tell. Raises Unsupported with
        the refusals if no scheduler takes the fusion, and what execute() raises for inputs that do not fit.
        """
        return self._show(inputs, device, "cuda_full" if intrinsic_code else "cuda_kernel")

    def get_scheduled_ir(self, inputs: Iterable[Any], tensor_transforms: bool = False, device: int = 0) -> str:
        """The schedule for inputs of this description: the loops, the memory and the position of each tensor.

        With tensor_transforms also how the loops stem from the dimensions. Raises as get_cuda_kernel().
        """
        return self._show(inputs, device, *scheduled_stage(tensor_transforms))

    def get_most_recent_scheduled_ir(self, tensor_transforms: bool = False) -> str:
        """get_scheduled_ir() for the inputs that were executed last. Raises InvalidArgument if none were."""
        return self._most_recent(*scheduled_stage(tensor_transforms))

    def explain(self, inputs: Iterable[Any]) -> explanation.Explanation:
        """Who computes which part of the fusion for inputs of this description, and why.

        For each segment what each scheduler says to it, the parameters that were chosen and the others, and how long
        it is thought to take. On a CUDA device each kernel is timed too, some 20 times on copies of the inputs, which
        takes as much memory again: nothing of it shows in the inputs or in random numbers. Times that could not be
        measured, as while a graph is captured, are missing, and `not_measured` says why. Raises what execute() raises
        for inputs that do not fit.
        """
        plain, _ = prepare(inputs)
        tensors = [x for x in plain if isinstance(x, torch.Tensor)]
        devices = [x.device for x in tensors if x.is_cuda]
        stream = None
        if devices or (not tensors and torch.cuda.is_available()):
            stream = torch.cuda.current_stream(*devices[:1]).cuda_stream
        return explanation.parsed(self._executor.explain(plain, stream))

    def _show(self, inputs: Iterable[Any], device: Any, *request: str) -> str:
        device_number(device)
        plain, _ = prepare(inputs)
        return self._executor.show(plain, "\n".join(request))

    def _most_recent(self, *request: str) -> str:
        executor = max(list(self._executors.values()), key=lambda executor: executor.last_use)  # others may add to them
        return executor.show(None, "\n".join(request))

    def get_output_shardings(self) -> list[Any]:
        """Raises Unsupported: there is no multi-device support."""
        raise unsupported("FusionExecutorCache.get_output_shardings()")


def scheduled_stage(tensor_transforms: bool) -> tuple[str, ...]:
    """The stage that shows a schedule, and its arguments."""
    return ("fusion_ir", "transforms") if tensor_transforms else ("fusion_ir",)


class KernelExecutor:
    """Compiles one kernel from a schedule that the program made, and runs it.

    On CPU tensors it runs in a simulator, as a device of compute capability 9.0 would. May be used from several threads
    once it is compiled.
    """

    def __init__(self, fusion_id: int = 0, concrete_id: int = 0, runtime_id: int = 0, group_id: int = 0) -> None:
        self.fusion_id, self.concrete_id, self.runtime_id, self.group_id = fusion_id, concrete_id, runtime_id, group_id

    def compile(
        self,
        fusion: Fusion,
        args: Iterable[Any] = (),
        launch_constraints: "LaunchParams | None" = None,
        compile_params: "CompileParams | None" = None,
        scheduler_type: Any = None,
    ) -> None:
        """Takes the schedule of the fusion as it is now; later schedule calls do not count.

        launch_constraints: the numbers of threads and blocks that every launch must have, where they are not -1.
        compile_params are kept for run() to compare and change nothing: the index type is that which the sizes need.
        args: inputs, by which what depends on sizes is checked now; without them it is when the kernel runs.
        Raises as FusionDefinition.manual_execute.
        """
        if not isinstance(fusion, Fusion):
            raise InvalidType(f"KernelExecutor.compile(): fusion must be a Fusion, got {fusion!r}")
        given = options.environment()
        self._dumps = dump.OfInputs(fusion, given.dump) if given.dump else None
        self._launch, self._compile = launch_constraints, compile_params
        dims = ("bdimx", "bdimy", "bdimz", "gdimx", "gdimy", "gdimz")
        launch = [-1 if launch_constraints is None else getattr(launch_constraints, name) for name in dims]
        executor = _C.scheduled_executor(fusion._core, *launch, options.exact(given))
        args = as_list(args, "KernelExecutor.compile()")
        if args:
            prepared, _ = prepare(args)
            executor.prepare(prepared)
        self._executor = executor

    def run(
        self,
        args: Iterable[Any],
        launch_constraints: "LaunchParams | None" = None,
        compile_params: "CompileParams | None" = None,
    ) -> list[torch.Tensor]:
        """Runs the kernel and returns the outputs. The constraints, if given, must be those of compile()."""
        if not self.is_compiled():
            raise FusionError("KernelExecutor.run(): nothing is compiled: call compile() first")
        for name, given, known in (
            ("launch_constraints", launch_constraints, self._launch),
            ("compile_params", compile_params, self._compile),
        ):
            if given is not None and given != known:
                raise InvalidArgument(
                    f"KernelExecutor.run(): {name} is {given}, but the kernel is compiled for {known}"
                )
        args = as_list(args, "KernelExecutor.run()")
        if self._dumps is not None:
            self._dumps.show(self._executor, prepare(args)[0])
        return self._executor.execute(args)

    def _most_recent(self, *request: str) -> str:
        return self._executor.show(None, "\n".join(request))

    def is_compiled(self) -> bool:
        """Whether compile() has succeeded."""
        return hasattr(self, "_executor")

    def is_programmatic_dependent_launch_enabled(self) -> bool:
        """False: a kernel starts when the one before it in the stream has ended."""
        return False
