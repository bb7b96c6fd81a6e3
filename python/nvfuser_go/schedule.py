"""Scheduling by hand: `fd.sched`. Not in this build; every function raises Unsupported."""

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
