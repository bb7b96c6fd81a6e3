"""Scheduling by hand: `fd.sched` and methods of tensors and axes. Not in this build: all of it raises Unsupported."""

from nvfuser_go import _C
from nvfuser_go.unavailable import function

bounded_transform_backward = function(__name__, "bounded_transform_backward")
transform_like = function(__name__, "transform_like")
parallelize_like = function(__name__, "parallelize_like")
inline_most = function(__name__, "inline_most")
inline_at = function(__name__, "inline_at")
can_schedule = function(__name__, "can_schedule")
find_compatible_schedulers = function(__name__, "find_compatible_schedulers")
compute_heuristics = function(__name__, "compute_heuristics")
schedule = function(__name__, "schedule")
warp_specialize = function(__name__, "warp_specialize")

for _kind, _names in (
    (
        _C.TensorView,
        "cache_after cache_before set_memory_type split inner_split outer_split merge reorder swizzle swizzle1d rfactor"
        " set_allocation_domain set_device_mesh",
    ),
    (_C.IterDomain, "parallelize"),
):
    for _name in _names.split():
        setattr(_kind, _name, function(_kind.__name__, _name))
