"""Timers of kernels. Not in this build; every class raises Unsupported."""

from nvfuser_go.unavailable import kind

CuptiTimer = kind(__name__, "CuptiTimer")
CuptiProfiler = kind(__name__, "CuptiProfiler")
FusionProfileTimer = kind(__name__, "FusionProfileTimer")
