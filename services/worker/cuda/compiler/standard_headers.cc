#include "services/worker/cuda/compiler/standard_headers.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kernelcast::worker {
namespace {

// Using-declarations of global names, so that "using namespace std" makes no call ambiguous.
constexpr const char* kGlobal = "::";
constexpr const char* kCudaStd = "cuda::std::";

constexpr const char* kIntegers = "#include <cuda/std/cstdint>\n";
constexpr const char* kLimits = "#include <cuda/std/climits>\n";
constexpr const char* kNull =
    "#ifndef NULL\n"
    "#define NULL nullptr\n"
    "#endif\n";
constexpr const char* kDefinitions =
    "#include <cuda/std/cstddef>\n"
    "#ifndef NULL\n"
    "#define NULL nullptr\n"
    "#endif\n"
    "#undef offsetof\n"
    "#define offsetof(type, member) ((size_t)__INTADDR__(&((type*)0)->member))\n"
    "using cuda::std::max_align_t;\n"
    "using cuda::std::nullptr_t;\n";
constexpr const char* kFloats =
    "#ifndef FLT_MAX\n"
    "#define FLT_RADIX 2\n"
    "#define FLT_MANT_DIG 24\n"
    "#define FLT_DIG 6\n"
    "#define FLT_DECIMAL_DIG 9\n"
    "#define FLT_MIN_EXP (-125)\n"
    "#define FLT_MIN_10_EXP (-37)\n"
    "#define FLT_MAX_EXP 128\n"
    "#define FLT_MAX_10_EXP 38\n"
    "#define FLT_MIN 1.17549435082228750797e-38F\n"
    "#define FLT_TRUE_MIN 1.40129846432481707092e-45F\n"
    "#define FLT_MAX 3.40282346638528859812e+38F\n"
    "#define FLT_EPSILON 1.19209289550781250000e-7F\n"
    "#define DBL_MANT_DIG 53\n"
    "#define DBL_DIG 15\n"
    "#define DBL_DECIMAL_DIG 17\n"
    "#define DBL_MIN_EXP (-1021)\n"
    "#define DBL_MIN_10_EXP (-307)\n"
    "#define DBL_MAX_EXP 1024\n"
    "#define DBL_MAX_10_EXP 308\n"
    "#define DBL_MIN 2.22507385850720138309e-308\n"
    "#define DBL_TRUE_MIN 4.94065645841246544177e-324\n"
    "#define DBL_MAX 1.79769313486231570815e+308\n"
    "#define DBL_EPSILON 2.22044604925031308085e-16\n"
    "#endif\n";
constexpr const char* kMath =
    "#ifndef INFINITY\n"
    "#define INFINITY (__int_as_float(0x7f800000))\n"
    "#define NAN (__int_as_float(0x7fffffff))\n"
    "#define HUGE_VALF INFINITY\n"
    "#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000LL))\n"
    "#endif\n"
    "#ifndef M_PI\n"
    "#define M_E 2.7182818284590452354\n"
    "#define M_LOG2E 1.4426950408889634074\n"
    "#define M_LOG10E 0.43429448190325182765\n"
    "#define M_LN2 0.69314718055994530942\n"
    "#define M_LN10 2.30258509299404568402\n"
    "#define M_PI 3.14159265358979323846\n"
    "#define M_PI_2 1.57079632679489661923\n"
    "#define M_PI_4 0.78539816339744830962\n"
    "#define M_1_PI 0.31830988618379067154\n"
    "#define M_2_PI 0.63661977236758134308\n"
    "#define M_2_SQRTPI 1.12837916709551257390\n"
    "#define M_SQRT2 1.41421356237309504880\n"
    "#define M_SQRT1_2 0.70710678118654752440\n"
    "#endif\n";
constexpr const char* kAlgorithms =
    "namespace std {\n"
    "template <class T>\n"
    "__host__ __device__ constexpr const T& min(const T& a, const T& b) {\n"
    "  return b < a ? b : a;\n"
    "}\n"
    "template <class T>\n"
    "__host__ __device__ constexpr const T& max(const T& a, const T& b) {\n"
    "  return a < b ? b : a;\n"
    "}\n"
    "template <class T>\n"
    "__host__ __device__ constexpr const T& clamp(const T& x, const T& low, const T& high) {\n"
    "  return x < low ? low : high < x ? high : x;\n"
    "}\n"
    "}\n";
// The host's headers that nvcc's <cuda_runtime.h> includes. The rest is built into NVRTC.
constexpr const char* kRuntime =
    "#include <cfloat>\n#include <climits>\n#include <cmath>\n#include <cstddef>\n"
    "#include <cstdint>\n#include <cstdlib>\n#include <cstring>\n#include <vector_types.h>\n";

// The driver API is for hosts, but device code may take this type as an argument.
constexpr const char* kDriver =
    "typedef struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; } CUtensorMap;\n";

// The names of namespace std come from `scope`, or from the text itself where that is empty.
struct Source {
  const char* name;
  const char* text;
  const char* scope = "";
  const char* names = "";
};

constexpr Source kSources[] = {
    {"algorithm", kAlgorithms, "", "clamp max min"},
    {"array", "#include <cuda/std/array>\n#include <utility>\n", kCudaStd, "array"},
    {"bit", "#include <cuda/std/bit>\n", kCudaStd, "bit_cast"},
    {"cassert", ""},
    {"cfloat", kFloats},
    {"climits", kLimits},
    {"cmath", kMath, kGlobal,
     "abs acos acosf acosh acoshf asin asinf asinh asinhf atan atan2 atan2f atanf atanh atanhf "
     "cbrt cbrtf ceil ceilf copysign copysignf cos cosf cosh coshf erf erfc erfcf erff exp exp2 "
     "exp2f expf expm1 expm1f fabs fabsf fdim fdimf floor floorf fma fmaf fmax fmaxf fmin fminf "
     "fmod fmodf frexp frexpf hypot hypotf ilogb ilogbf isfinite isinf isnan ldexp ldexpf lgamma "
     "lgammaf llrint llrintf llround llroundf log log10 log10f log1p log1pf log2 log2f logb logbf "
     "logf lrint lrintf lround lroundf modf modff nan nanf nearbyint nearbyintf nextafter "
     "nextafterf pow powf remainder remainderf remquo remquof rint rintf round roundf scalbln "
     "scalblnf scalbn scalbnf signbit sin sinf sinh sinhf sqrt sqrtf tan tanf tanh tanhf tgamma "
     "tgammaf trunc truncf"},
    {"complex", "#include <cuda/std/complex>\n", kCudaStd, "complex"},
    {"cstddef", kDefinitions, kCudaStd, "byte max_align_t nullptr_t ptrdiff_t size_t to_integer"},
    {"cstdint", kIntegers, kGlobal,
     "int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t int_least8_t "
     "int_least16_t int_least32_t int_least64_t uint_least8_t uint_least16_t uint_least32_t "
     "uint_least64_t int_fast8_t int_fast16_t int_fast32_t int_fast64_t uint_fast8_t "
     "uint_fast16_t uint_fast32_t uint_fast64_t intptr_t uintptr_t intmax_t uintmax_t"},
    {"cstdio", "", kGlobal, "printf size_t"},
    {"cstdlib", kNull, kGlobal, "abs free labs llabs malloc size_t"},
    {"cstring", kNull, kGlobal, "memcpy memset size_t"},
    {"functional", "#include <cuda/std/functional>\n", kCudaStd,
     "bit_and bit_not bit_or bit_xor divides equal_to greater greater_equal invoke less "
     "less_equal logical_and logical_not logical_or minus modulus multiplies negate not_equal_to "
     "plus"},
    {"initializer_list", "#include <cuda/std/initializer_list>\n", "", "initializer_list"},
    {"limits", "#include <cuda/std/limits>\n", kCudaStd, "numeric_limits"},
    {"tuple", "#include <cuda/std/tuple>\n#include <utility>\n", kCudaStd,
     "apply forward_as_tuple ignore make_from_tuple make_tuple tie tuple tuple_cat"},
    {"type_traits", "#include <cuda/std/type_traits>\n", kCudaStd,
     "add_const add_const_t add_cv add_cv_t add_lvalue_reference add_lvalue_reference_t "
     "add_pointer add_pointer_t add_rvalue_reference add_rvalue_reference_t add_volatile "
     "add_volatile_t aligned_storage aligned_storage_t alignment_of alignment_of_v bool_constant "
     "common_type common_type_t conditional conditional_t conjunction conjunction_v decay decay_t "
     "disjunction disjunction_v enable_if enable_if_t extent extent_v false_type "
     "has_unique_object_representations has_unique_object_representations_v "
     "has_virtual_destructor has_virtual_destructor_v integral_constant invoke_result "
     "invoke_result_t is_abstract is_abstract_v is_arithmetic is_arithmetic_v is_array is_array_v "
     "is_assignable is_assignable_v is_base_of is_base_of_v is_class is_class_v is_compound "
     "is_compound_v is_const is_const_v is_constructible is_constructible_v is_convertible "
     "is_convertible_v is_copy_assignable is_copy_assignable_v is_copy_constructible "
     "is_copy_constructible_v is_default_constructible is_default_constructible_v is_destructible "
     "is_destructible_v is_empty is_empty_v is_enum is_enum_v is_final is_final_v "
     "is_floating_point is_floating_point_v is_function is_function_v is_fundamental "
     "is_fundamental_v is_integral is_integral_v is_invocable is_invocable_r is_invocable_r_v "
     "is_invocable_v is_lvalue_reference is_lvalue_reference_v is_member_pointer "
     "is_member_pointer_v is_move_assignable is_move_assignable_v is_move_constructible "
     "is_move_constructible_v is_nothrow_copy_constructible is_nothrow_copy_constructible_v "
     "is_nothrow_default_constructible is_nothrow_default_constructible_v "
     "is_nothrow_move_constructible is_nothrow_move_constructible_v is_null_pointer "
     "is_null_pointer_v is_object is_object_v is_pointer is_pointer_v is_polymorphic "
     "is_polymorphic_v is_reference is_reference_v is_rvalue_reference is_rvalue_reference_v "
     "is_same is_same_v is_scalar is_scalar_v is_signed is_signed_v is_standard_layout "
     "is_standard_layout_v is_trivial is_trivial_v is_trivially_copyable is_trivially_copyable_v "
     "is_trivially_destructible is_trivially_destructible_v is_union is_union_v is_unsigned "
     "is_unsigned_v is_void is_void_v is_volatile is_volatile_v make_signed make_signed_t "
     "make_unsigned make_unsigned_t negation negation_v rank rank_v remove_all_extents "
     "remove_all_extents_t remove_const remove_const_t remove_cv remove_cv_t remove_cvref "
     "remove_cvref_t remove_extent remove_extent_t remove_pointer remove_pointer_t "
     "remove_reference remove_reference_t remove_volatile remove_volatile_t true_type "
     "underlying_type underlying_type_t void_t"},
    {"utility", "#include <cuda/std/utility>\n#include <initializer_list>\n", kCudaStd,
     "as_const declval exchange get in_place in_place_t index_sequence index_sequence_for "
     "integer_sequence make_index_sequence make_integer_sequence make_pair pair "
     "piecewise_construct piecewise_construct_t swap tuple_element_t tuple_size_v"},
    {"assert.h", ""},
    {"float.h", kFloats},
    {"limits.h", kLimits},
    {"math.h", kMath},
    {"stddef.h", kDefinitions},
    {"stdint.h", kIntegers},
    {"stdio.h", ""},
    {"stdlib.h", kNull},
    {"string.h", kNull},
    {"cuda_runtime.h", kRuntime},
    {"cuda.h", kDriver},
};

std::vector<StandardHeader> MakeHeaders() {
  std::vector<StandardHeader> headers;
  for (const Source& source : kSources) {
    StandardHeader header{
        source.name,
        absl::StrCat("#pragma once\n", source.text),
        absl::StrSplit(source.names, ' ', absl::SkipEmpty()),
    };
    if (*source.scope != '\0') {
      absl::StrAppend(&header.text, "namespace std {\n");
      for (const std::string& name : header.names) {
        absl::StrAppend(&header.text, "using ", source.scope, name, ";\n");
      }
      absl::StrAppend(&header.text, "}\n");
    }
    headers.push_back(std::move(header));
  }
  return headers;
}

}  // namespace

std::span<const StandardHeader> StandardHeaders() {
  static const auto& headers = *new std::vector<StandardHeader>(MakeHeaders());
  return headers;
}

}  // namespace kernelcast::worker
