"""FusionDefinition: the way in which programs define a fusion and run it."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from nvfuser_go import _C, notebook, reproducer, schedule
from nvfuser_go.enums import DataType
from nvfuser_go.errors import (
    EMPTY_FUSION,
    NO_FUSION,
    FusionError,
    InvalidArgument,
    InvalidType,
    MissingDefinition,
    renamed,
)
from nvfuser_go.fusion import (
    FUNCTION_NAME,
    ActiveFusion,
    Fusion,
    FusionExecutorCache,
    KernelExecutor,
    add_scalar,
    add_tensor,
    compute_tensor_descriptor,
    scheduled_stage,
)
from nvfuser_go.inputs import as_list, device_index
from nvfuser_go.locks import ForkSafeLock
from nvfuser_go.pytorch_utils import data_type_of

if TYPE_CHECKING:
    from nvfuser_go.explanation import Explanation
    from nvfuser_go.parameters import HeuristicParams

Inputs = Iterable[Any]

# Held while the method `definition` of a subclass runs, so that threads that execute it first run it once.
_defining = ForkSafeLock()


class FusionDefinition(_C.Definition):
    """A fusion that is defined in a `with` block and then executed any number of times.

        with FusionDefinition() as fd:
            x = fd.define_tensor(shape=[-1, -1], contiguity=True, dtype=DataType.Float)
            fd.add_output(fd.ops.relu(x))
        (y,) = fd.execute([tensor])

    A subclass with a method `definition` that does what the block does is defined when it is first executed.

    repr() is Python source that defines the fusion again. `fec` is the FusionExecutorCache, once there is one.
    """

    if TYPE_CHECKING:
        from nvfuser_go import _ops as ops
    else:
        ops = _C.ops

    @property
    def sched(self) -> schedule.Scheduling:
        """The functions of the module `schedule` for this fusion."""
        return schedule.Scheduling(lambda: self.fusion)

    def __enter__(self) -> "FusionDefinition":
        if hasattr(self, "fec"):
            raise FusionError("the fusion is executed already and cannot change: make a new FusionDefinition")
        if hasattr(self, "_guard"):
            raise FusionError("the fusion is being defined already: a definition has one `with` block")
        self._fusion = Fusion()
        self._guard = ActiveFusion(self._fusion)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not hasattr(self, "_guard"):
            raise FusionError("the `with` block of this definition was not entered")
        self._guard.release()
        del self._guard
        if hasattr(self, "fec"):
            return  # it was executed in the block, which completed it
        if kind is not None:
            del self._fusion  # half a definition would compute something else
        else:
            self._fusion._complete()

    @property
    def fusion(self) -> Fusion:
        """The fusion that is defined, or the one that is executed. Raises MissingDefinition if there is none."""
        # In this order: another thread may execute for the first time, which sets fec and then deletes _fusion.
        fusion = getattr(self, "_fusion", None)
        if fusion is None and hasattr(self, "fec"):
            fusion = self.fec.fusion()
        if fusion is None:
            raise MissingDefinition(NO_FUSION)
        return fusion

    def define_tensor(self, *args: Any, **kwargs: Any) -> Any:
        """Adds an input tensor and returns it. In one of three forms:

            define_tensor(shape, contiguity: list, dtype=DataType.Float, is_cpu=False, stride_order=[])
            define_tensor(shape, contiguity: bool=False, dtype=DataType.Float, is_cpu=False, stride_order=[])
            define_tensor(sizes, strides, dtype=DataType.Float, static_sizes=False, is_cpu=False)

        shape: for each dimension its size, 1 if it is broadcast, -1 if its size is known only when the fusion runs.
        contiguity: in order of memory, the slowest dimension first, whether the stride is that of a dense layout of
        the faster ones; None for a broadcast dimension. A dimension with None whose size is not 1 is an expanded one.
        stride_order: for each dimension the rank of its stride, 0 being the fastest. Strides are in elements. With
        static_sizes=False sizes other than 0 and 1 become -1. is_cpu: a tensor of rank 0 in host memory.

        Raises InvalidType or InvalidArgument.
        """
        return add_tensor(self.fusion, args, kwargs)

    def define_scalar(
        self, value: bool | int | float | complex | DataType | None = None, dtype: DataType | None = None
    ) -> Any:
        """Adds an input scalar of `dtype` (Double if left out), or with a value gives a constant, which is no input.

        The dtype of a constant is Bool, Int, Double or ComplexDouble by the type of the value, if left out.
        Raises InvalidType or InvalidArgument.
        """
        return add_scalar(self.fusion, value, dtype)

    def define_constant(self, value: bool | int | float | complex, dtype: DataType | None = None) -> Any:
        """A constant, as define_scalar(value, dtype) gives."""
        if value is None or isinstance(value, DataType):
            raise InvalidType(f"define_constant(): value must be a number, got {value!r}")
        with renamed("define_scalar", "define_constant"):
            return add_scalar(self.fusion, value, dtype)

    def define_vector(self, size: int | Sequence[int], dtype: DataType = DataType.Int) -> list[Any]:
        """A list of `size` input scalars of `dtype`; for a list of numbers, a list of constants."""
        if isinstance(size, int) and not isinstance(size, bool):
            if size < 0:
                raise InvalidArgument(f"define_vector(): size is {size}; a size is not negative")
            return [add_scalar(self.fusion, None, dtype) for _ in range(size)]
        if isinstance(size, list | tuple):
            return [self.define_constant(value, dtype) for value in size]
        raise InvalidType(f"define_vector(): size must be an int or a list of ints, got {size!r}")

    def from_pytorch(self, tensor: torch.Tensor, static_sizes: bool = False) -> Any:
        """Adds an input tensor of the description of `tensor`; sizes other than 0 and 1 are -1 unless static_sizes.

        A 0-dimensional CPU tensor becomes one with is_cpu=True. Raises InvalidType for what is not a torch tensor, or
        one of a dtype that a fusion does not have.
        """
        if not isinstance(tensor, torch.Tensor):
            raise InvalidType(f"from_pytorch(): tensor must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.layout is not torch.strided:
            raise InvalidType(f"from_pytorch(): tensor has layout {tensor.layout}; an input is dense and has strides")
        if tensor.device.type == "cpu" and tensor.dim() > 0 and not accepts_cpu_tensors:
            raise InvalidArgument("Found unsupported device cpu, only scalar CPU or CUDA tensors are supported")
        dtype = data_type_of(tensor.dtype, "from_pytorch(): tensor has dtype")
        contiguity, stride_order = compute_tensor_descriptor(tensor.shape, tensor.stride())
        shape = [n if static_sizes or n in (0, 1) else -1 for n in tensor.shape]
        return self.define_tensor(
            shape=shape,
            contiguity=list(contiguity),
            dtype=dtype,
            is_cpu=tensor.device.type == "cpu" and tensor.dim() == 0,
            stride_order=list(stride_order),
        )

    def add_output(self, output: Any, alias_input: Any = None, stride_order: Sequence[int] | None = None) -> None:
        """Makes the tensor `output` a result of the fusion.

        With `alias_input`, an input tensor of the same dtype and shape, the result is written into its memory when the
        fusion runs, and is not among the results that execute() returns; a run that raises leaves it undefined. Inputs
        that are written must have no elements in common, which execute() checks. With `stride_order`, which may also be
        the second argument by position, the result is ops.stride_order(output, stride_order). Raises InvalidType or
        InvalidArgument.
        """
        if isinstance(alias_input, list | tuple):
            if stride_order is not None:
                raise InvalidType(f"add_output(): alias_input must be a tensor, got {alias_input!r}")
            alias_input, stride_order = None, alias_input
        if stride_order is not None:
            if alias_input is not None:
                raise InvalidArgument(
                    f"add_output(): stride_order is {stride_order!r}, but the result has the strides of alias_input"
                )
            with renamed("stride_order", "add_output"):
                output = self.ops.stride_order(output, stride_order)
        self.fusion.add_output(output, alias_input)

    def validate_definition(self) -> tuple[bool, str | None]:
        """Whether there is something to execute, and if not, a message that says what is missing."""
        try:
            fusion = self.fusion
        except MissingDefinition:
            return False, NO_FUSION
        return (True, None) if fusion.outputs() else (False, EMPTY_FUSION)

    def _defined(self) -> None:
        """Runs the method `definition` of a subclass if nothing is defined, and raises if nothing is then."""
        if hasattr(self, "definition"):
            with _defining.held():
                if not self._has_definition():
                    with self:
                        self.definition()
        ok, message = self.validate_definition()
        if not ok:
            raise MissingDefinition(message)

    def _execute(
        self,
        inputs: Inputs,
        *,
        device: int | str | torch.device | None = None,
        save_repro_inputs: bool = False,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
    ) -> list[torch.Tensor]:
        """What execute() does at first, and with more arguments than inputs."""
        if not hasattr(self, "fec"):
            self._make_cache()
        if save_repro_inputs:
            inputs = as_list(inputs, "execute()")
            self.fake_inputs = reproducer.describe(inputs)
        outputs = self.fec.execute(
            inputs, device=device, _enable_options=_enable_options, _disable_options=_disable_options
        )
        if self.fec.runs_alone:
            self._use(self.fec._executor)
        return outputs

    _execute.__qualname__ = "FusionDefinition.execute"  # which errors about its arguments name

    def _make_cache(self) -> None:
        """Sets `fec`."""
        if hasattr(self, "ke"):
            raise AssertionError("KernelExecutor already exists! Use manual_execute() to execute the fusion.")
        self._defined()
        fusion = self.fusion
        if fusion._core.script():
            raise InvalidArgument("execute(): the fusion is scheduled by the program: run it with manual_execute()")
        fusion._complete()  # in the `with` block it may not be: what follows there would be lost
        with _defining.held():
            if not hasattr(self, "fec"):  # else another thread was the first
                self.fec = FusionExecutorCache(fusion)
        self.__dict__.pop("_fusion", None)

    def cuda_code_for(self, inputs: Inputs, intrinsic_code: bool = False, override_user_schedule: bool = False) -> str:
        """`fec.get_cuda_kernel(inputs, intrinsic_code)`, before anything is executed too.

        override_user_schedule is accepted and changes nothing.
        """
        if not hasattr(self, "fec"):
            self._make_cache()
        return self.fec.get_cuda_kernel(inputs, intrinsic_code)

    def scheduled_fusion_ir_for(
        self, inputs: Inputs, tensor_transforms: bool = False, override_user_schedule: bool = False
    ) -> str:
        """`fec.get_scheduled_ir(inputs, tensor_transforms)`, before anything is executed too.

        override_user_schedule is accepted and changes nothing.
        """
        if not hasattr(self, "fec"):
            self._make_cache()
        return self.fec.get_scheduled_ir(inputs, tensor_transforms)

    def explain(self, inputs: Inputs) -> "Explanation":
        """`fec.explain(inputs)`, before anything is executed too: who computes which part, and why."""
        if not hasattr(self, "fec"):
            self._make_cache()
        return self.fec.explain(inputs)

    def last_cuda_code(self, intrinsic_code: bool = False, override_user_schedule: bool = False) -> str:
        """The CUDA kernel for the inputs that were executed last; raises InvalidArgument if none were."""
        return self._most_recent("last_cuda_code", "cuda_full" if intrinsic_code else "cuda_kernel")

    def last_scheduled_fusion_ir(self, tensor_transforms: bool = False, override_user_schedule: bool = False) -> str:
        """The schedule for the inputs that were executed last; raises InvalidArgument if none were."""
        return self._most_recent("last_scheduled_fusion_ir", *scheduled_stage(tensor_transforms))

    def _most_recent(self, method: str, *request: str) -> str:
        """A stage for the inputs that were executed last, by a scheduler or by hand."""
        executor = getattr(self, "fec", None) or getattr(self, "ke", None)
        if executor is None:
            raise InvalidArgument(f"{method}(): the fusion has not been executed")
        return executor._most_recent(*request)

    def manual_execute(self, inputs: Inputs, heuristic_params: "HeuristicParams | None" = None) -> list[torch.Tensor]:
        """Runs the fusion by the schedule that the program made, and returns its outputs.

        The schedule is that of the first call: `ke`, the KernelExecutor, holds it. heuristic_params: its lparams hold
        for every launch; its cparams are accepted and change nothing. On CPU tensors it runs in a simulator, as a
        device of compute capability 9.0 would, which reports what such a device would leave undefined.

        Raises AssertionError after execute(), MissingDefinition without a definition, InvalidArgument for inputs that
        do not fit the definition and for a schedule that is not legal or exceeds the device, Unsupported for one that
        this build cannot lower; the texts name the tensor and the rule.
        """
        if hasattr(self, "fec"):
            raise AssertionError("FusionExecutorCache already exists! Use execute() to execute the fusion.")
        self._defined()
        inputs = as_list(inputs, "manual_execute()")
        if not hasattr(self, "ke"):
            from nvfuser_go.parameters import HeuristicParams

            if not isinstance(heuristic_params, HeuristicParams | None):
                raise InvalidType(
                    f"manual_execute(): heuristic_params must be HeuristicParams or None, got {heuristic_params!r}"
                )
            executor = KernelExecutor()
            given = () if heuristic_params is None else (heuristic_params.lparams, heuristic_params.cparams)
            executor.compile(self.fusion, inputs, *given)
            self.__dict__.setdefault("ke", executor)  # the one of the first of several threads
        return self.ke.run(inputs)

    def validate(
        self,
        inputs: Inputs,
        reference_outputs: Sequence[torch.Tensor] | None = None,
        device: int | str | torch.device | None = None,
        **kwargs: Any,
    ) -> list[torch.Tensor]:
        """Executes, compares the outputs and returns them.

        They are compared with `reference_outputs`, or else with what torch computes for the same operations, to a
        tolerance from the dtypes and the lengths of the reductions. Raises FusionError naming the output that differs,
        and what execute() raises; `kwargs` are passed to it.
        """
        from nvfuser_go import validation

        self._ready()
        inputs = as_list(inputs, "validate()")
        before = validation.copies(self.fusion, inputs)
        outputs = self.execute(inputs, device=device, **kwargs)
        validation.Expectation(self.fusion, before, reference_outputs).compare(outputs)
        return outputs

    def _ready(self) -> None:
        if not hasattr(self, "fec"):
            self._defined()

    def manual_validate(
        self, inputs: Inputs, reference_outputs: Sequence[torch.Tensor] | None = None
    ) -> list[torch.Tensor]:
        """As validate(), through manual_execute()."""
        from nvfuser_go import validation

        self._ready()
        inputs = as_list(inputs, "manual_validate()")
        before = validation.copies(self.fusion, inputs)
        outputs = self.manual_execute(inputs)
        validation.Expectation(self.fusion, before, reference_outputs).compare(outputs)
        return outputs

    def repro_script_for(self, inputs: Inputs | None = None) -> str:
        """A stand-alone script that defines the fusion and, if inputs are given, executes it on tensors of their
        description with random elements. Schedule calls that were made are in it."""
        self._ready()
        if inputs is not None:
            inputs = as_list(inputs, "repro_script_for()")
        return reproducer.script(self.fusion.python(FUNCTION_NAME), inputs, self.fusion._core.reproducer())

    def last_repro_script(self) -> str:
        """repro_script_for() the inputs of the last execute(..., save_repro_inputs=True).

        Raises AssertionError without one.
        """
        if not hasattr(self, "fake_inputs"):
            raise AssertionError(
                "fd.last_repro_script() cannot provide a repro because fd.execute(inputs, save_repro_inputs=True)"
                " was not executed!"
            )
        return self.repro_script_for(self.fake_inputs)

    def _get_device_index(self, device: int | str | torch.device | None) -> int | None:
        return device_index(device)

    def _has_definition(self) -> bool:
        return hasattr(self, "_fusion") or hasattr(self, "fec")

    def __repr__(self) -> str:
        if not self._has_definition():
            return f"<{type(self).__name__} without a definition>"
        return self.fusion.python(FUNCTION_NAME)

    def _repr_html_(self) -> str:
        return notebook.html(self.fusion) if self._has_definition() else notebook.escaped(repr(self))

    def _repr_markdown_(self) -> str:
        return notebook.markdown(self.fusion) if self._has_definition() else repr(self)


# Whether from_pytorch takes CPU tensors with dimensions; compat.install sets it as nvFuser has it.
accepts_cpu_tensors = True
