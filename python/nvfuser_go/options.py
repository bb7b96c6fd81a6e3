"""Options: nvFuser's NVFUSER_* variables and the options of one call.

Each of NVFUSER_DUMP, NVFUSER_ENABLE, NVFUSER_DISABLE and NVFUSER_PROF is a comma list of names; a name may carry
arguments in parentheses. An unknown name is an error that lists the legal ones. A name that nvFuser has and this
package does not act on is accepted with one warning. The environment is read once, when a fusion is first executed.
"""

import functools
import os
import re
import sys
import warnings
from dataclasses import dataclass

from nvfuser_go import _C
from nvfuser_go.errors import InvalidArgument, InvalidType

_LEGAL = {
    "NVFUSER_DUMP": """
        fusion_ir_original fusion_ir_concretized fusion_ir_preseg fusion_ir_presched fusion_ir fusion_ir_math
        fusion_ir_graph kernel_ir cuda_kernel cuda_full cuda_to_file ptx cubin sass sass_to_file ptxas_verbose
        launch_param fusion_args kernel_args occupancy dynamic_shared_memory global_zeroed_memory index_type
        perf_debug_verbose compile_params ftrace python_definition segmented_fusion segmenter_logging
        draw_segmented_fusion pre_segmenter_logging scheduler_params scheduler_verbose transform_propagator inlining
        parallel_dimensions bank_conflict lower_verbose ca_map sync_map expr_simplify expr_sort expr_sort_verbose
        indexing_verbose predicate_elimination buffer_reuse_verbose communication host_ir host_ir_lowering host_ir_jit
        cutlass_compile""",
    "NVFUSER_ENABLE": """
        cutlass_scheduler fuse_matmul fuse_multiple_matmuls id_model_extra_validation io_to_lower_precision kernel_db
        kernel_debug kernel_lineinfo kernel_profile memory_promotion reuse_zeroed_memory static_fusion_count
        wait_debugger warn_register_spill tma_pointwise tma_reduction tma_inner_persistent ws_normalization
        host_ir_lowering host_ir_jit insert_resharding_after fast_math p2p_protocol p2p_transport multicast_protocol
        verify simulate index_check""",
    "NVFUSER_DISABLE": """
        compile_to_sass contig_indexing expr_simplify index_hoist magic_zero predicate_elimination var_name_remapping
        fallback fma greedy_scheduler resize_scheduler matmul_expr_eval grouped_grid_welford_outer_opt
        welford_vectorization kernel_reuse nvrtc_caching nvtx parallel_compile python_inline_definitions
        reuse_mismatched_type_registers multidevice infer_contiguity""",
    "NVFUSER_PROF": "enable enable.nocupti print print.nocupti print.verbose",
}


@dataclass(frozen=True)
class Stage:
    """A way to look at a fusion on its way to a kernel: what it shows, what arguments it takes ("": none), and whether
    it needs no inputs."""

    does: str
    takes: str
    of_definition: bool


def _stages() -> dict[str, Stage]:
    rows = (line.split("\t") for line in _C.stages().splitlines())
    return {name: Stage(does, takes, of_definition == "1") for name, does, takes, of_definition in rows}


# By name, which is that of NVFUSER_DUMP, in the order in which a fusion passes them.
STAGES = _stages()

# Stages that nvFuser does not have are names of NVFUSER_DUMP too.
LEGAL: dict[str, tuple[str, ...]] = {variable: tuple(names.split()) for variable, names in _LEGAL.items()}
LEGAL["NVFUSER_DUMP"] = tuple(dict.fromkeys((*LEGAL["NVFUSER_DUMP"], *STAGES)))

# Options that nvFuser does not have: kernels that start while those before them end, and operations that are
# approximated where 16 bits of the result are kept.
LAUNCH_OVERLAP, APPROXIMATE_MATH = "launch_overlap", "approximate_math"
LEGAL["NVFUSER_DISABLE"] = (*LEGAL["NVFUSER_DISABLE"], LAUNCH_OVERLAP, APPROXIMATE_MATH)

# What NVFUSER_DUMP does beyond printing stages: writes the stage cuda_full into a file of the folder given.
CUDA_TO_FILE = "cuda_to_file"

# What this build acts on; the other legal names are accepted with a warning.
EFFECTIVE: dict[str, frozenset[str]] = {
    "NVFUSER_DUMP": frozenset({*STAGES, CUDA_TO_FILE}),
    "NVFUSER_ENABLE": frozenset({"verify", "simulate", "index_check"}),
    "NVFUSER_DISABLE": frozenset({"parallel_compile", LAUNCH_OVERLAP, APPROXIMATE_MATH}),
    "NVFUSER_PROF": frozenset(),
}

# The variables of this package, with what they mean.
OWN_VARIABLES = {
    "NVFUSER_GO_CACHE_DIR": "folder for compiled kernels and plans; nvfuser_go in the user's cache folder if not set",
    "NVFUSER_GO_CALIBRATION": "file with the times of a device, as `python -m nvfuser_go calibrate` writes it; the one "
    "in the folder of compiled kernels if not set",
    "NVFUSER_GO_LIBCUDA": "file of the CUDA driver to use instead of looking for libcuda.so.1",
    "NVFUSER_GO_LIBNVRTC": "file of the compiler of kernels to use instead of looking for libnvrtc.so",
    "NVFUSER_GO_PROGRESS": "seconds after which a compilation shows a line on stderr, if that is a terminal; "
    "2 if not set, off: never",
    "NVFUSER_GO_REPRO_DIR": "folder for the files that reproduce an internal error; the temporary folder if not set",
}

_ITEM = re.compile(r"\s*([\w.]+)\s*(?:\(([^()]*)\))?\s*(?:,|$)")
_warned: set[tuple[str, str]] = set()


def _user_level() -> int:
    """The `stacklevel` at which a warning points at the line of the program that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "nvfuser_go":
        level, frame = level + 1, frame.f_back
    return level


def parse(variable: str, text: str, given_as: str | None = None) -> dict[str, tuple[str, ...]]:
    """The names in the list `text`, each with its arguments.

    `variable` is one of the keys of LEGAL; `given_as` is what messages call it, if that is another name. Raises
    InvalidArgument for a name that is not legal there and for text that is no list. Warns, once in a process, of a name
    without effect.
    """
    called = given_as or variable
    found: dict[str, tuple[str, ...]] = {}
    at = 0
    while at < len(text.rstrip()):
        item = _ITEM.match(text, at)
        if item is None:
            raise InvalidArgument(
                f"{called}: cannot read {text[at:]!r}: it is a comma list of names, each with or without (arguments)"
            )
        name = item[1]
        if name not in LEGAL[variable]:
            raise InvalidArgument(
                f"{called}: there is no option {name!r}; the options are {', '.join(LEGAL[variable])}"
            )
        found[name] = tuple(a.strip() for a in item[2].split(",") if a.strip()) if item[2] else ()
        if name not in EFFECTIVE[variable] and (variable, name) not in _warned:
            _warned.add((variable, name))
            warnings.warn(f"{variable}={name} has no effect in this build of nvfuser_go", stacklevel=_user_level())
        at = item.end()
    return found


@dataclass(frozen=True)
class Options:
    """What is switched on; each field maps names to their arguments."""

    dump: dict[str, tuple[str, ...]]
    enable: dict[str, tuple[str, ...]]
    disable: dict[str, tuple[str, ...]]
    prof: dict[str, tuple[str, ...]]


@functools.cache
def environment() -> Options:
    """The options in the environment of the process. Raises InvalidArgument as `parse` does."""
    given = {variable: parse(variable, os.environ.get(variable, "")) for variable in LEGAL}
    return Options(given["NVFUSER_DUMP"], given["NVFUSER_ENABLE"], given["NVFUSER_DISABLE"], given["NVFUSER_PROF"])


def simulated(given: Options) -> int | None:
    """The number of the schedule that is simulated, or None.

    A fusion may be several kernels, each with schedules of its own: the number is counted around in each. Raises
    InvalidArgument for what is no number.
    """
    if "simulate" not in given.enable:
        return None
    arguments = given.enable["simulate"] or ("0",)
    if len(arguments) > 1 or not arguments[0].isdecimal() or len(arguments[0]) > 9:
        raise InvalidArgument(
            f"simulate({', '.join(arguments)}): it takes the number of a schedule, counted from 0, or nothing"
        )
    return int(arguments[0])


def serial(given: Options) -> bool:
    """Whether kernels are compiled one after another, in the order in which they run, instead of side by side."""
    return "parallel_compile" in given.disable


def apart(given: Options) -> bool:
    """Whether no kernel starts before the one before it has ended."""
    return LAUNCH_OVERLAP in given.disable


def exact(given: Options) -> bool:
    """Whether no operation is computed by an approximation, also where only 16 bits of the result are kept."""
    return APPROXIMATE_MATH in given.disable


def checks_indices(given: Options) -> bool:
    """Whether positions that are out of range are errors."""
    return "index_check" in given.enable


def for_call(enable: list[str], disable: list[str]) -> Options:
    """The options of one call: those of the environment, and the given names. A name in `disable` wins."""
    for argument, names in (("_enable_options", enable), ("_disable_options", disable)):
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise InvalidType(f"execute(): {argument} must be a list of names, got {names!r}")
    base = environment()
    on, off = dict(base.enable), dict(base.disable)
    for text in enable:
        on |= parse("NVFUSER_ENABLE", text, "execute(): _enable_options")
    for text in disable:
        off |= parse("NVFUSER_DISABLE", text, "execute(): _disable_options")
    return Options(base.dump, on, off, base.prof)
