"""Scheduling by hand: the functions of `fd.sched`, and the methods of tensors and axes that change a schedule.

The first call on a fusion completes it and gives it a schedule, in which every tensor is computed by serial loops over
its own axes. From then on the domains of tensors are those of the schedule. A call that fails changes nothing.

The calls are those of the table of primitives of the compiled core, which binds and checks the arguments:

    InvalidType      an argument is missing or of the wrong kind
    InvalidArgument  a value breaks a rule; the text names the tensor, the axis and the rule
    Unsupported      this build has no meaning for it

`fd.sched.inline_most()` acts on the fusion of fd. Called as functions of this module, what takes no tensor acts on the
fusion that is being defined on the thread.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from inspect import isfunction
from typing import TYPE_CHECKING, Any

from nvfuser_go import _C
from nvfuser_go.enums import SchedulerType
from nvfuser_go.errors import InvalidArgument, InvalidType
from nvfuser_go.inputs import as_list, prepare
from nvfuser_go.unavailable import function

if TYPE_CHECKING:
    from nvfuser_go.enums import ParallelType
    from nvfuser_go.fusion import Fusion
    from nvfuser_go.parameters import HeuristicParams

#: The rows of the table: dicts with the keys that nvf_primitive_table in nvfuser_go.h lists.
PRIMITIVES: list[dict[str, Any]] = json.loads(_C.primitive_table())


def _plain(value: Any) -> Any:
    """An argument as the core reads it: members by name, dicts as pairs, sets as lists."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Mapping):
        return [list(item) for item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted(_plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Calls the primitive `name`; the tensor of a method comes first."""
    return _C.schedule(name, *map(_plain, args), **{key: _plain(value) for key, value in kwargs.items()})


def transform_like(reference_tv: Any, selected_tensors: Sequence[Any] = ()) -> list[str] | None:
    """Gives the selected tensors, or all, the loop domain of the reference.

    What cannot follow keeps its loops; the reasons are returned, None if there are none.
    """
    return _call("transform_like", reference_tv, selected_tensors)


def bounded_transform_backward(
    from_tv: Any, pos: int, to: Sequence[Any], propagate_parallel_type: bool = False
) -> list[str] | None:
    """Gives the producers of `from_tv`, as far as the tensors of `to`, its first `pos` loops (-1: all).

    With propagate_parallel_type also their parallel types. What cannot follow keeps its loops; the reasons are
    returned, None if there are none.
    """
    return _call("bounded_transform_backward", from_tv, pos, to, propagate_parallel_type)


def parallelize_like(
    reference_tv: Any,
    pos: int = -1,
    selected_tensors: Sequence[Any] = (),
    selected_parallel_types: "Iterable[ParallelType]" = frozenset(),
    propagate_padding: bool = True,
) -> None:
    """Gives the loop axes of the selected tensors, or of all, the parallel types of the reference's.

    Those of corresponding axes among the first `pos` (-1: all), if they are among selected_parallel_types, or that is
    empty. Axes are not padded: propagate_padding changes nothing.
    """
    _call("parallelize_like", reference_tv, pos, selected_tensors, list(selected_parallel_types), propagate_padding)


def inline_most(selected_tensors: Sequence[Any] = ()) -> None:
    """Computes the selected tensors, or all, inside the loops of their consumers, as far as possible."""
    _call("inline_most", selected_tensors)


def inline_at(
    reference_tv: Any, pos: int = -1, best_effort: bool = False, selected_tensors: Sequence[Any] = ()
) -> None:
    """Computes the selected tensors, or all, inside the loops that correspond to the first `pos` of the reference.

    -1: all of them. With best_effort as far as possible, else too far is an error that says what stops it.
    """
    _call("inline_at", reference_tv, pos, best_effort, selected_tensors)


def side_by_side() -> None:
    """Lets tensors that are not computed from each other be computed by blocks of their own, along grid_x."""
    _call("side_by_side")


def warp_specialize(
    tv: Any,
    number_of_stages: int,
    prefetch_distance: int,
    parallel_type: "ParallelType",
    num_registers: Sequence[int] | None = None,
) -> None:
    """Raises Unsupported with the reason: all warps of a block run one program."""
    _call("warp_specialize", tv, number_of_stages, prefetch_distance, parallel_type, num_registers)


def _ask(request: int, fusion: "Fusion", scheduler_type: SchedulerType, inputs: Iterable[Any], params: str = "") -> str:
    from nvfuser_go.fusion import Fusion

    if not isinstance(fusion, Fusion):
        raise InvalidType(f"the fusion must be a Fusion, got {fusion!r}")
    if not isinstance(scheduler_type, SchedulerType):
        raise InvalidType(f"the scheduler must be a SchedulerType, got {scheduler_type!r}")
    prepared, _ = prepare(as_list(inputs, "inputs"))
    return _C.ask_scheduler(fusion._core, request, scheduler_type.name, prepared, params)


def can_schedule(fusion: "Fusion", scheduler_type: SchedulerType, inputs: Iterable[Any]) -> tuple[bool, str]:
    """Whether a scheduler takes the fusion for these inputs, and if not, why: a line for each reason.

    Raises InvalidType and InvalidArgument for inputs that do not fit the definition.
    """
    reasons = _ask(0, fusion, scheduler_type, inputs)
    return not reasons, reasons


def find_compatible_schedulers(fusion: "Fusion", inputs: Iterable[Any]) -> list[SchedulerType]:
    """The schedulers that take the fusion for these inputs, the preferred one first. Raises as can_schedule()."""
    inputs = as_list(inputs, "inputs")
    return [kind for kind in map(SchedulerType.__getitem__, _C.schedulers()) if can_schedule(fusion, kind, inputs)[0]]


def compute_heuristics(fusion: "Fusion", scheduler_type: SchedulerType, inputs: Iterable[Any]) -> "HeuristicParams":
    """What a scheduler would choose for these inputs. Raises Unsupported with the reasons if it takes them not."""
    from nvfuser_go import parameters

    inputs = as_list(inputs, "inputs")
    chosen = json.loads(_ask(1, fusion, scheduler_type, inputs))
    return parameters.of_choice(scheduler_type, chosen, inputs)


def schedule(
    fusion: "Fusion", scheduler_type: SchedulerType, inputs_or_params: "Iterable[Any] | HeuristicParams"
) -> "HeuristicParams":
    """Schedules the fusion by a scheduler, for inputs or by what compute_heuristics() gave, and returns the parameters.

    Schedule calls may follow; none may have gone before. Raises Unsupported if the scheduler does not take the fusion,
    InvalidArgument for parameters that are no choice of it.
    """
    from nvfuser_go import parameters

    if isinstance(inputs_or_params, parameters.HeuristicParams):
        params = inputs_or_params
        if params.scheduler_type is not scheduler_type:
            raise InvalidArgument(f"schedule(): the parameters are of {params.scheduler_type}, not of {scheduler_type}")
    else:
        params = compute_heuristics(fusion, scheduler_type, inputs_or_params)
    _ask(2, fusion, scheduler_type, parameters.inputs_like(params), json.dumps(parameters.choice_of(params)))
    return params


#: The functions above, which fd.sched has.
_FUNCTIONS = frozenset(
    name
    for name, value in list(globals().items())
    if isfunction(value) and value.__module__ == __name__ and not name.startswith("_")
)


class Scheduling:
    """The functions of this module for one fusion."""

    def __init__(self, fusion: "Callable[[], Fusion]") -> None:
        self._fusion = fusion

    def __getattr__(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise AttributeError(f"fd.sched has no function {name!r}")
        found = globals()[name]

        def bound(*args: Any, **kwargs: Any) -> Any:
            from nvfuser_go.fusion import ActiveFusion

            with ActiveFusion(self._fusion()):
                return found(*args, **kwargs)

        bound.__name__, bound.__doc__ = name, found.__doc__
        return bound

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_FUNCTIONS})

    def script(self) -> str:
        """The calls made so far, one a line: from the fusion and this text the schedule can be made again."""
        return self._fusion()._core.script()

    def run_script(self, script: str) -> None:
        """Makes the calls of a text that `script` gave: all or, if one fails, none. The error tells the line."""
        self._fusion()._core.run_script(script)

    def text(self) -> str:
        """Loops, memory and position of each tensor as they are scheduled now."""
        return self._fusion()._core.schedule_text()


def _method(row: dict[str, Any]) -> Any:
    name = row["name"]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _call(name, self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    method.__module__ = __name__
    method.__doc__ = f"{name}{row['signature']}\n\n{row['does']}"
    return method


for _row in PRIMITIVES:
    if _row["method"]:
        setattr(_C.TensorView, _row["name"], _method(_row))
_C.IterDomain.parallelize = _method(next(row for row in PRIMITIVES if row["name"] == "parallelize"))
_C.TensorView.set_device_mesh = function("TensorView", "set_device_mesh")
