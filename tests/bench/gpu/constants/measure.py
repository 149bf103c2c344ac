#!/usr/bin/env python3
"""Times the kernels of mechanisms.cu on this machine's GPU and records the device data that the model needs.

    measure.py [--jsonl FILE] [--commit HASH] [--runs N] [--ptx FILE]

Needs only the driver and NVRTC. A kernel is timed by events around one launch after the second-level cache was
filled with other data; the figure is the median of the runs. --ptx writes the PTX for sm_90a and exits without using
a GPU.
"""

import argparse
import ctypes
import datetime
import glob
import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FLOATS = 1 << 26  # elements of in and out
COUNTS = 1 << 24

# kernel, blocks, threads per block, n, s
RUNS = (
    [("nothing", blocks, 128, 0, 0) for blocks in (1, 132, 13200, 132000)]
    + [("nothing", 65536, threads, 0, 0) for threads in (32, 64, 256, 512, 1024)]
    + [("nothing", 13200, threads, 0, 0) for threads in (32, 512, 1024)]
    + [("copy_once", n // threads, threads, n, 0) for n in (1 << 20, 1 << 24, 1 << 26)
       for threads in (64, 128, 256, 512, 1024)]
    + [("copy_once_4", n // 4 // threads, threads, n, 0) for n in (1 << 22, 1 << 26)
       for threads in (64, 128, 256, 512, 1024)]
    + [("copy_rows", (1 << 26) // s, threads, 1 << 26, s) for s in (256, 1024)
       for threads in (32, 64, 128, 256, 512)]
    + [("block_chain", blocks, threads, 0, 0)
       for blocks, threads in ((528, 128), (4096, 128), (1024, 1024))]
    + [("look_back", blocks, threads, 0, 0)
       for blocks, threads in ((528, 128), (4096, 128), (32768, 128), (1024, 1024))]
    + [("atomic_lanes", 264, 256, 1, s) for s in (1, 2, 8, 32)]
    + [("atomic_lanes", 264, 256, 32, s) for s in (2, 8, 32)]
    + [("atomic_lanes_float", 264, 256, 1, s) for s in (1, 32)]
    + [("atomic_returns", 264, 256, 8, s) for s in (1, 32, 4096, 1 << 20)]
    + [("atomic_spread", 264, 256, 16, s) for s in (32, 256, 4096, 1 << 20)]
    + [("atomic_shared", 264, 256, 64, s) for s in (1, 32, 256, 1024)]
    + [("atomic_shared_float", 264, 256, 16, s) for s in (1, 32, 256, 1024)]
    + [("spill_16", 528, 256, 256, 5), ("spill_64", 528, 256, 256, 5),
       ("spill_256", 528, 256, 512, 5), ("spill_64", 132, 128, 1024, 5)]
    + [("strided_read", (1 << 26) // s // 256, 256, 1 << 26, s)
       for s in (1, 2, 4, 8, 16, 32, 64, 128)]
    + [("strided_write", (1 << 26) // s // 256, 256, 1 << 26, s) for s in (1, 2, 8, 32, 128)]
    + [("column_walk", 1024, 256, n, 0) for n in (16, 64, 256)]
    + [("copy_loop", blocks, 256, 1 << 24, 0) for blocks in (132, 528, 1056)]
    + [("persistent_shared", 132, 512, 64, s) for s in (1 << 12, 1 << 15, 1 << 18)]
    + [("persistent_shared", 528, 256, 16, 1 << 18)]
    + [("persistent_own", 132, 512, 64, s) for s in (1 << 12, 1 << 15, 1 << 17)]
    + [("persistent_tiles", 132, 512, 132, s) for s in (1 << 12, 1 << 15)]
    + [("persistent_tiles", 264, 256, 132, 1 << 14)]
    + [(kernel, 132, 32, 4096, 7)
       for kernel in ("chain_fma", "chain_exp", "chain_expf", "chain_divide", "chain_root",
                      "chain_sine", "chain_tanh", "chain_log", "chain_power", "chain_shuffle",
                      "chain_double", "chain_double_divide", "chain_integer_divide",
                      "chain_integer")]
    + [("chain_load", 132, 32, 1024, 7), ("chain_load", 132, 256, 1024, 7),
       ("chain_load_cached", 132, 32, 4096, 1024), ("chain_shared", 132, 32, 4096, 7),
       ("chain_shared", 132, 1024, 4096, 7), ("chain_barrier", 132, 32, 1024, 0),
       ("chain_barrier", 132, 256, 1024, 0), ("chain_barrier", 132, 1024, 1024, 0),
       ("chain_one_thread", 132, 128, 4096, 0)]
    + [("bank_read", 528, 512, 256, s) for s in (1, 2, 4, 8, 16, 32)]
    + [("bank_write", 528, 512, 256, s) for s in (1, 2, 8, 32)]
    + [("transpose_naive", 264, 1024, 128, s) for s in (33, 32)]
    + [(kernel, blocks, 256, 1 << 26, blocks * 256)
       for kernel in ("checked_loads", "checked_sums") for blocks in (132, 1056, 16384)]
    + [("row_passes", blocks, threads, n, s)
       for blocks, threads, s in ((4096, 256, 8192), (6144, 256, 4096), (512, 1024, 65536))
       for n in (1, 2, 3)]
    + [("neighbours", (1 << 24) // threads, threads, 1 << 24, 4096) for threads in (128, 256, 1024)]
    + [(kernel, 528, 256, 512, 0) for kernel in ("products_half", "products_float8")]
    + [(kernel, 528, 512, 512, 0) for kernel in ("convert_float8", "convert_half")]
)


def library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    sys.exit(f"none of {names} is here")


def compile_ptx(architecture):
    homes = [os.environ.get("CUDA_HOME", "/usr/local/cuda")]
    found = [path for home in homes for folder in ("lib64", "lib")
             for path in sorted(glob.glob(f"{home}/{folder}/libnvrtc.so.*"))]
    nvrtc = library(found + ["libnvrtc.so.13", "libnvrtc.so.12"])
    with open(f"{HERE}/mechanisms.cu") as file:
        source = file.read()
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"mechanisms.cu", 0, None, None)
    options = (ctypes.c_char_p * 1)(f"--gpu-architecture={architecture}".encode())
    failed = nvrtc.nvrtcCompileProgram(program, 1, options)
    size = ctypes.c_size_t()
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        sys.exit(log.value.decode())
    results = []
    for what in ("PTX", "CUBIN"):
        getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        content = ctypes.create_string_buffer(size.value)
        getattr(nvrtc, f"nvrtcGet{what}")(program, content)
        results.append(content.raw)
    return results


class Device:
    def __init__(self):
        self.cuda = library(["libcuda.so.1"])
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, device)
        self.name = name.value.decode()
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.driver = ""
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            nvml.nvmlInit_v2()
            nvml.nvmlSystemGetDriverVersion(name, 80)
            self.driver = name.value.decode()
        except OSError:
            pass

    def call(self, function, *arguments):
        error = getattr(self.cuda, function)(*arguments)
        if error:
            sys.exit(f"{function} failed: {error}")

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jsonl")
    parser.add_argument("--commit", default="")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--ptx")
    options = parser.parse_args()
    ptx, cubin = compile_ptx("sm_90a")
    if options.ptx:
        with open(options.ptx, "wb") as file:
            file.write(ptx.rstrip(b"\0\n") + b"\n")
        return
    device = Device()
    module = ctypes.c_void_p()
    device.call("cuModuleLoadData", ctypes.byref(module), cubin)
    out, source, flush = (device.allocate(4 * FLOATS + 4096) for _ in range(3))
    counts = device.allocate(4 * COUNTS)
    one = 0x3F000000  # 0.5
    device.call("cuMemsetD32_v2", source, one, ctypes.c_size_t(FLOATS + 1024))
    chain = (ctypes.c_uint32 * (1 << 20))(*((k + 56) % (1 << 20) for k in range(1 << 20)))
    start, end = ctypes.c_void_p(), ctypes.c_void_p()
    for event in (start, end):
        device.call("cuEventCreate", ctypes.byref(event), 0)
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = []
    for kernel, blocks, threads, n, s in RUNS:
        function = ctypes.c_void_p()
        device.call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
        registers, local = ctypes.c_int(), ctypes.c_int()
        device.call("cuFuncGetAttribute", ctypes.byref(registers), 4, function)
        device.call("cuFuncGetAttribute", ctypes.byref(local), 3, function)
        values = [out, source, counts, ctypes.c_int(n), ctypes.c_int(s)]
        arguments = (ctypes.c_void_p * 5)(*[ctypes.cast(ctypes.byref(v), ctypes.c_void_p)
                                            for v in values])
        times = []
        for run in range(options.runs + 2):
            if run == 0:
                device.call("cuMemcpyHtoD_v2", counts, chain, ctypes.c_size_t(4 << 20))
            if kernel in ("block_chain", "look_back"):
                device.call("cuMemsetD32_v2", counts, 0, ctypes.c_size_t(1 << 20))
            device.call("cuMemsetD32_v2", flush, run, ctypes.c_size_t(FLOATS))
            device.call("cuEventRecord", start, None)
            device.call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, arguments,
                        None)
            device.call("cuEventRecord", end, None)
            device.call("cuEventSynchronize", end)
            ms = ctypes.c_float()
            device.call("cuEventElapsedTime", ctypes.byref(ms), start, end)
            if run >= 2:
                times.append(ms.value * 1e3)
        lines.append({"kernel": kernel, "blocks": blocks, "threads": threads, "n": n, "s": s,
                      "registers": registers.value, "local_bytes": local.value,
                      "us": round(statistics.median(times), 3),
                      "spread_us": round(max(times) - min(times), 3), "device": device.name,
                      "driver": device.driver, "date": when, "commit": options.commit})
        print(f"{kernel:22} {blocks:7} {threads:5} {n:9} {s:8} {lines[-1]['us']:12.2f} us", flush=True)
    if options.jsonl:
        with open(options.jsonl, "w") as file:
            for line in lines:
                file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
