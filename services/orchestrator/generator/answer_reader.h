#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/lenient_json.h"
#include "common/domain/candidate.h"

namespace kernelcast::orchestrator {

// Why no kernel can be read from an answer.
enum class ReadFault {
  kNone,
  kEmpty,           // empty answer
  kCutOff,          // the answer ended before its code did
  kRefused,         // the model refused to write
  kContentFilter,   // the endpoint's content filter stopped the answer
  kNoCode,          // no code
  kNoEntry,         // code without the entry or a kernel
  kNoLaunches,      // device code without its launches
  kBadDescription,  // unreadable launches, flags or sizes
  kBadText,         // invalid UTF-8, or a NUL
  kTooLong,         // more than kMaxKernelBytes
  kBadEdit,         // an edit that cannot be read
  kEditNotFound,    // an edit of lines that the parent does not have
  kEditFoundTwice,  // an edit of lines that the parent has more than once
};
inline constexpr ReadFault kReadFaults[] = {
    ReadFault::kEmpty,         ReadFault::kCutOff,         ReadFault::kRefused,
    ReadFault::kContentFilter, ReadFault::kNoCode,         ReadFault::kNoEntry,
    ReadFault::kNoLaunches,    ReadFault::kBadDescription, ReadFault::kBadText,
    ReadFault::kTooLong,       ReadFault::kBadEdit,        ReadFault::kEditNotFound,
    ReadFault::kEditFoundTwice};
// "empty", "cut_off", ...
std::string_view Name(ReadFault fault);

inline constexpr size_t kMaxKernelBytes = 256 << 10;

struct ReadKernel {
  ReadFault fault = ReadFault::kNone;
  // One line for the model and for people, if there is a fault.
  std::string reason;
  // Kind, source, flags, tunables, launches and workspace.
  Candidate candidate;
  // Faults of the description that were overlooked.
  std::set<Repair> repairs;
};

// Finds the kernel in a model's answer. Accepts any bytes. The time is linear with a small factor.
//
// The code is the last fenced block, with three or more backticks or tildes, that defines the entry
// of a host-launched kernel or contains a kernel of device code. A block with a file name is
// inserted where that code includes it. The description is the last block of JSON, or the whole
// answer, with any of launches, workspace_bytes, flags and tunables; it may contain the code as
// "source", and the faults that Repair names. An answer that is only code needs no fence. An
// unclosed last fence is ignored if the answer was cut off.
//
// Instead of the whole source, an answer may contain edits of the source of `model`
// (edit_blocks.h), in fences or not. A whole source counts only if it comes after the last edit.
// Edits of an answer that was cut off do not count, because some may be missing. Edits keep what
// the description leaves out: launches, workspace, flags and tunables.
//
// `model` is the kernel that the new one was derived from. It determines the expected kind. If
// device code comes without launches, the launches of `model` are used, provided that the code has
// the same kernels.
//
// `entries`: what Python must define (PythonTask::entries). Empty: what any format asks for.
ReadKernel ReadAnswer(std::string_view answer, bool cut_off, const Candidate& model,
                      const std::vector<std::string>& entries = {});

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_ANSWER_READER_H_
