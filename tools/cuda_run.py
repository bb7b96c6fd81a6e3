"""Runs kernels of a cubin on the GPU: reads launches from standard input and writes the buffers to standard output, as
the programs of codegen/cuda/hostshim do.

    python tools/cuda_run.py KERNELS.cubin <launches >buffers
"""

import ctypes
import struct
import sys

MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
MARGIN, FENCE = 256, 0xA5


class Driver:
    """The CUDA driver; calls that fail raise an error with its name for it."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.cuInit(0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.cuDeviceGet(ctypes.byref(device), 0)
        self.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.cuCtxSetCurrent(context)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            if code := function(*arguments):
                text = ctypes.c_char_p()
                self.library.cuGetErrorName(code, ctypes.byref(text))
                raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

        return call


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def numbers(self, count, form="I"):
        size = struct.calcsize(f"<{count}{form}")
        found = struct.unpack_from(f"<{count}{form}", self.data, self.at)
        self.at += size
        return found

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count : self.at]


def run(driver, module, reader, out):
    """One launch: the order and meaning of what is read is that of hostshim.Launch."""
    name = reader.bytes(*reader.numbers(1))
    grid, block = reader.numbers(3), reader.numbers(3)
    reader.numbers(3)  # the cluster is in the kernel's text
    shared, cooperative, _ = reader.numbers(3)
    parameters = bytearray(reader.bytes(*reader.numbers(1)))
    buffers, addresses = [], []
    for i in range(*reader.numbers(1)):
        place, first = reader.numbers(2)
        if first != i:  # the same memory
            addresses.append(addresses[first])
            struct.pack_into("<Q", parameters, place, addresses[first])
            continue
        (size,) = reader.numbers(1, "Q")
        fence = bytes([FENCE]) * MARGIN
        content = fence + reader.bytes(size) + fence
        pointer = ctypes.c_uint64()
        driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(len(content)))
        driver.cuMemcpyHtoD_v2(pointer, content, ctypes.c_size_t(len(content)))
        addresses.append(pointer.value + MARGIN)
        struct.pack_into("<Q", parameters, place, addresses[i])
        buffers.append((pointer, len(content)))
    function = ctypes.c_void_p()
    driver.cuModuleGetFunction(ctypes.byref(function), module, name)
    if shared:
        driver.cuFuncSetAttribute(function, MAX_DYNAMIC_SHARED, shared)
    block_of_parameters = (ctypes.c_char * max(len(parameters), 1)).from_buffer(parameters or bytearray(1))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(block_of_parameters))
    launch = driver.cuLaunchCooperativeKernel if cooperative else driver.cuLaunchKernel
    more = () if cooperative else (None,)
    if all(grid):
        launch(function, *grid, *block, shared, None, arguments, *more)
    driver.cuCtxSynchronize()
    for pointer, size in buffers:
        content = ctypes.create_string_buffer(size)
        driver.cuMemcpyDtoH_v2(content, pointer, ctypes.c_size_t(size))
        driver.cuMemFree_v2(pointer)
        raw = content.raw
        if set(raw[:MARGIN]) | set(raw[-MARGIN:]) != {FENCE}:
            raise RuntimeError(f"{name.decode()}: a thread wrote beyond a buffer")
        out.write(raw[MARGIN:-MARGIN])


def main():
    driver = Driver()
    module = ctypes.c_void_p()
    with open(sys.argv[1], "rb") as file:
        driver.cuModuleLoadData(ctypes.byref(module), file.read())
    reader = Reader(sys.stdin.buffer.read())
    while reader.at < len(reader.data):
        run(driver, module, reader, sys.stdout.buffer)


if __name__ == "__main__":
    main()
