#include "services/worker/cuda/compiler/kernel_parameters.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/checked_math.h"
#include "common/base/strings.h"
#include "common/domain/text.h"

namespace kernelcast::worker {
namespace {

constexpr std::string_view kEntry = ".entry";

// The size recorded for a parameter that declares this size or a larger one. No argument is this
// large, and the size in bits still fits an int64_t.
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max() / 8;

// Parses ".param .u64 .ptr .align 1 name" or ".param .align 4 .b8 name[12]".
KernelParameter ReadParameter(std::string_view text) {
  KernelParameter parameter;
  int64_t count = 1;
  if (const size_t open = text.find('['); open != std::string_view::npos) {
    const std::string_view number = text.substr(open + 1);
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (error != std::errc() || count < 0) count = kMostBytes;
    parameter.kind = KernelParameter::Kind::kStructure;
  }
  for (size_t at = text.find('.'); at != std::string_view::npos; at = text.find('.', at + 1)) {
    const std::string_view word = text.substr(at + 1, text.find_first_of(" \t\r\n", at) - at - 1);
    if (word == "ptr") {
      parameter.kind = KernelParameter::Kind::kAddress;
      continue;
    }
    if (word.size() < 2 || std::string_view("usfb").find(word[0]) == std::string_view::npos) {
      continue;
    }
    int64_t bits = 0;
    const auto [stop, error] = std::from_chars(word.data() + 1, word.data() + word.size(), bits);
    if (error != std::errc() || stop != word.data() + word.size()) continue;
    parameter.bytes = std::min(kMostBytes, CheckedMultiply(bits / 8, count).value_or(kMostBytes));
    if (word[0] == 'f') parameter.kind = KernelParameter::Kind::kReal;
  }
  return parameter;
}

std::string ParameterText(const KernelParameter& parameter) {
  switch (parameter.kind) {
    case KernelParameter::Kind::kInteger:
      return absl::StrCat("a whole number of ", parameter.bytes, " bytes");
    case KernelParameter::Kind::kReal:
      return absl::StrCat("a floating-point number of ", parameter.bytes, " bytes");
    case KernelParameter::Kind::kAddress: return "an address of 8 bytes";
    case KernelParameter::Kind::kStructure:
      return absl::StrCat("a structure of ", parameter.bytes, " bytes");
  }
  return "";
}

std::string ArgumentText(const KernelArgument& argument) {
  if (argument.kind != KernelArgument::Kind::kScalar) return "an address of 8 bytes";
  return absl::StrCat(std::string(Name(argument.type)), ", ", argument.bytes, " bytes");
}

bool Fits(const KernelArgument& argument, const KernelParameter& parameter) {
  if (static_cast<int64_t>(argument.bytes) != parameter.bytes) return false;
  const bool is_address = argument.kind != KernelArgument::Kind::kScalar;
  const bool is_real = !is_address && IsFloat(argument.type);
  switch (parameter.kind) {
    case KernelParameter::Kind::kInteger: return !is_real;
    case KernelParameter::Kind::kReal: return is_real;
    case KernelParameter::Kind::kAddress: return !is_real;
    // __half and __nv_bfloat16 are structures.
    case KernelParameter::Kind::kStructure: return true;
  }
  return true;
}

}  // namespace

std::string EntryDeclarations(std::string_view ptx) {
  std::string declarations;
  for (size_t at = ptx.find(kEntry); at != std::string_view::npos; at = ptx.find(kEntry, at + 1)) {
    const size_t open = ptx.find_first_of("({", at);
    if (open == std::string_view::npos) break;
    const size_t end = ptx[open] == '(' ? std::min(ptx.find(')', open), ptx.size()) : open;
    absl::StrAppend(&declarations, std::string(ptx.substr(at, end - at)),
                    ptx[open] == '(' ? ")\n{}\n" : "{}\n");
  }
  return declarations;
}

std::vector<KernelSignature> ReadSignatures(std::string_view ptx) {
  std::vector<KernelSignature> signatures;
  for (size_t at = ptx.find(kEntry); at != std::string_view::npos; at = ptx.find(kEntry, at + 1)) {
    const std::string_view rest = ptx.substr(at + kEntry.size());
    // A kernel without parameters may have no parentheses.
    const size_t open = rest.find_first_of("({");
    if (open == std::string_view::npos) break;
    KernelSignature& signature = signatures.emplace_back();
    signature.name = std::string(Trim(rest.substr(0, open)));
    if (rest[open] != '(') continue;
    std::string_view list = rest.substr(open + 1, rest.find(')', open) - open - 1);
    while (!IsBlank(list)) {
      const size_t comma = std::min(list.find(','), list.size());
      signature.parameters.push_back(ReadParameter(Trim(list.substr(0, comma))));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  return signatures;
}

std::optional<std::string> CheckArguments(const std::vector<Launch>& launches,
                                          const LaunchPlan& plan,
                                          const std::vector<KernelSignature>& signatures) {
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const PlannedLaunch& launch = plan.launches[i];
    const auto signature = std::ranges::find(signatures, launch.kernel, &KernelSignature::name);
    if (signature == signatures.end()) continue;
    const std::vector<KernelParameter>& parameters = signature->parameters;
    const std::string kernel =
        absl::StrCat("launches[", launch.index, "].arguments: kernel ", Quoted(launch.kernel));
    if (parameters.size() != launch.arguments.size()) {
      return absl::StrCat(kernel, " takes ", parameters.size(), " arguments, and the launch has ",
                          launch.arguments.size());
    }
    for (size_t j = 0; j < parameters.size(); ++j) {
      const KernelArgument& argument = launch.arguments[j];
      if (Fits(argument, parameters[j])) continue;
      std::string hint;
      if (argument.kind == KernelArgument::Kind::kScalar &&
          parameters[j].kind != KernelParameter::Kind::kStructure &&
          parameters[j].kind != KernelParameter::Kind::kAddress) {
        const std::string& text = launches[launch.index].arguments[j];
        const bool real = parameters[j].kind == KernelParameter::Kind::kReal;
        hint = absl::StrCat("; write ",
                            Quoted(absl::StrCat(text.substr(0, text.rfind(':')), ":",
                                                real ? "float" : "int", 8 * parameters[j].bytes)),
                            " for that type");
      }
      return absl::StrCat(kernel, ": argument ", j + 1, " is ",
                          Quoted(launches[launch.index].arguments[j]), " (", ArgumentText(argument),
                          "), and the kernel takes ", ParameterText(parameters[j]), hint);
    }
  }
  return std::nullopt;
}

}  // namespace kernelcast::worker
