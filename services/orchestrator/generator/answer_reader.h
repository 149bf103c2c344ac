#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "common/domain/candidate.h"

namespace kernelcast::orchestrator {

// Why no kernel can be read from an answer.
enum class ReadFault {
  kNone,
  kEmpty,           // nothing was said
  kCutOff,          // the answer ended before its code did
  kNoCode,          // prose
  kNoEntry,         // code, but none with the entry or a kernel
  kNoLaunches,      // device code without its launches
  kBadDescription,  // launches, flags or sizes that cannot be read
  kBadText,         // no UTF-8, or a NUL
  kTooLong,         // more than kMaxKernelBytes
};
inline constexpr ReadFault kReadFaults[] = {
    ReadFault::kEmpty,      ReadFault::kCutOff,         ReadFault::kNoCode,  ReadFault::kNoEntry,
    ReadFault::kNoLaunches, ReadFault::kBadDescription, ReadFault::kBadText, ReadFault::kTooLong};
// "empty", "cut_off", ...
std::string_view Name(ReadFault fault);

inline constexpr size_t kMaxKernelBytes = 256 << 10;

struct ReadKernel {
  ReadFault fault = ReadFault::kNone;
  // One line for the model and for people, where there is a fault.
  std::string reason;
  // Kind, source, flags, tunables, launches and workspace.
  Candidate candidate;
};

// Finds the kernel in what a model said. Any bytes are allowed; the time is linear but for a small
// factor.
//
// The code is the last fenced block, with three or more backticks or tildes, that defines the entry
// of a host-launched kernel or has a kernel of device code. A block that names a file is put where
// that code includes it. What describes the code is the last block of JSON, or the whole answer,
// with any of launches, workspace_bytes, flags and tunables; it may hold the code as "source".
// An answer that is nothing but code needs no fence. What comes up to a closing </think> is left
// out, and so is a last fence that nothing closes but the end, where the answer was cut off.
//
// `model` is what the kernel was made from: it says which kind is wanted, and where device code
// brings no launches those of `model` are taken, if it launches kernels that the code has as well.
ReadKernel ReadAnswer(std::string_view answer, bool cut_off, const Candidate& model);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_
