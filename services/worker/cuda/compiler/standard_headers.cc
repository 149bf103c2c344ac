#include "services/worker/cuda/compiler/standard_headers.h"

namespace kernelcast::worker {
namespace {

constexpr const char* kIntegers = "#include <cuda/std/cstdint>\n";
constexpr const char* kLimits = "#include <cuda/std/climits>\n";
constexpr const char* kNothing = "#pragma once\n";
constexpr const char* kFloats =
    "#pragma once\n"
    "#ifndef FLT_MAX\n"
    "#define FLT_RADIX 2\n"
    "#define FLT_MANT_DIG 24\n"
    "#define FLT_DIG 6\n"
    "#define FLT_MIN 1.17549435082228750797e-38F\n"
    "#define FLT_MAX 3.40282346638528859812e+38F\n"
    "#define FLT_EPSILON 1.19209289550781250000e-7F\n"
    "#define DBL_MANT_DIG 53\n"
    "#define DBL_DIG 15\n"
    "#define DBL_MIN 2.22507385850720138309e-308\n"
    "#define DBL_MAX 1.79769313486231570815e+308\n"
    "#define DBL_EPSILON 2.22044604925031308085e-16\n"
    "#endif\n";
constexpr const char* kMath =
    "#pragma once\n"
    "#ifndef INFINITY\n"
    "#define INFINITY (__int_as_float(0x7f800000))\n"
    "#define NAN (__int_as_float(0x7fffffff))\n"
    "#define HUGE_VALF INFINITY\n"
    "#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000LL))\n"
    "#endif\n"
    "#ifndef M_PI\n"
    "#define M_E 2.7182818284590452354\n"
    "#define M_LOG2E 1.4426950408889634074\n"
    "#define M_LN2 0.69314718055994530942\n"
    "#define M_PI 3.14159265358979323846\n"
    "#define M_SQRT2 1.41421356237309504880\n"
    "#define M_SQRT1_2 0.70710678118654752440\n"
    "#define M_2_SQRTPI 1.12837916709551257390\n"
    "#endif\n";
// What nvcc's <cuda_runtime.h> includes from the host's headers. The rest is built into NVRTC.
constexpr const char* kRuntime =
    "#include <cuda/std/cstdint>\n#include <cuda/std/climits>\n#include <float.h>\n"
    "#include <math.h>\n#include <vector_types.h>\n";

// The driver API is for hosts, but device code may take this type as an argument.
constexpr const char* kDriver =
    "#pragma once\n"
    "typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;\n";

constexpr StandardHeader kHeaders[] = {
    {"assert.h", kNothing},
    {"cassert", kNothing},
    {"cfloat", kFloats},
    {"climits", kLimits},
    {"cmath", kMath},
    {"cstddef", kNothing},
    {"cstdint", kIntegers},
    {"cstdio", kNothing},
    {"cstdlib", kNothing},
    {"cstring", kNothing},
    {"float.h", kFloats},
    {"limits.h", kLimits},
    {"math.h", kMath},
    {"stddef.h", kNothing},
    {"stdint.h", kIntegers},
    {"stdio.h", kNothing},
    {"stdlib.h", kNothing},
    {"string.h", kNothing},
    {"cuda_runtime.h", kRuntime},
    {"cuda.h", kDriver},
};

}  // namespace

std::span<const StandardHeader> StandardHeaders() { return kHeaders; }

}  // namespace kernelcast::worker
