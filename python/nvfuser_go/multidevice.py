"""Fusions over several devices. Not in this build; every class raises Unsupported."""

from nvfuser_go.unavailable import function, kind

Communicator = kind(__name__, "Communicator", "instance")
DeviceMesh = kind(__name__, "DeviceMesh")
Sharding = kind(__name__, "Sharding")
MultiDeviceExecutorParams = kind(__name__, "MultiDeviceExecutorParams")
MultiDeviceExecutor = kind(__name__, "MultiDeviceExecutor")
shard_tensor = function(__name__, "shard_tensor")
