#include "services/orchestrator/generator/kernel_prompt.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/domain/lesson.h"
#include "common/domain/text.h"
#include "common/prompt/prompt_text.h"
#include "services/orchestrator/generator/builtin_prompts.h"
#include "services/orchestrator/generator/candidate_header.h"
#include "services/orchestrator/generator/profile_text.h"

namespace kernelcast::orchestrator {
namespace {

// Must change when this file or common/prompt produce different bytes for the same input.
constexpr std::string_view kRenderingVersion = "3";

constexpr std::string_view kKinds[] = {"cpu",        "cuda",          "cuda_host",       "python",
                                       "python_run", "python_kernel", "python_functions"};
constexpr std::string_view kFileNames[] = {"prompt.json",
                                           "system.txt",
                                           "user.txt",
                                           "cpu.txt",
                                           "cuda.txt",
                                           "cuda_host.txt",
                                           "python.txt",
                                           "cpu_answer.txt",
                                           "cuda_answer.txt",
                                           "cuda_host_answer.txt",
                                           "python_answer.txt",
                                           "python_run.txt",
                                           "python_run_answer.txt",
                                           "python_kernel.txt",
                                           "python_kernel_answer.txt",
                                           "python_functions.txt",
                                           "python_functions_answer.txt",
                                           "critic_system.txt",
                                           "critic_user.txt"};
constexpr std::string_view kSystemNames[] = {"contract", "answer_form"};
constexpr std::string_view kKindNames[] = {"abi", "flags"};
constexpr std::string_view kUserNames[] = {"hardware", "task",     "shapes", "reference",
                                           "setbacks", "unusable", "best",   "parent",
                                           "profile",  "change",   "advice", "lessons"};

// Number of setbacks whose source is shown, and the maximum size of a source.
constexpr size_t kSourcesShown = 2;
constexpr size_t kMaxShownSourceBytes = 12 << 10;
constexpr size_t kMaxLineBytes = 400;
constexpr size_t kMaxChangeBytes = 8 << 10;

// How much is left out, in increasing order.
enum class Detail { kAll, kNoSetbackSources, kNoChange, kNoSetbacks, kNoBest };
constexpr Detail kDetails[] = {Detail::kAll, Detail::kNoSetbackSources, Detail::kNoChange,
                               Detail::kNoSetbacks, Detail::kNoBest};

absl::StatusOr<std::string> ParseVersion(std::string_view text) {
  using nlohmann::json;
  const json object = ParseBoundedJson(text);
  if (!object.is_object()) return absl::InvalidArgumentError("no JSON object");
  for (const auto& [key, value] : object.items()) {
    if (key != "version") {
      return absl::InvalidArgumentError(absl::StrCat(Quoted(key), " is not version"));
    }
  }
  if (!object.contains("version") || !object["version"].is_string()) {
    return absl::InvalidArgumentError("version: a string is wanted");
  }
  std::string version = object["version"].get<std::string>();
  if (const absl::Status named = CheckPromptVersion(version); !named.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("version: ", named.message()));
  }
  return version;
}

std::string_view KindOf(const Problem& problem, std::string_view target) {
  if (problem.task) {
    switch (problem.task->format) {
      case PythonTask::Format::kKernelBench: return "python";
      case PythonTask::Format::kFlashInferBench:
      case PythonTask::Format::kSolExecBench: return "python_run";
      case PythonTask::Format::kGpuMode: return "python_kernel";
      case PythonTask::Format::kGpuModeEval: return "python_functions";
    }
  }
  if (target == kCpuTargetName) return "cpu";
  const auto found = problem.targets.find(target);
  const bool host =
      found != problem.targets.end() && !KindInfoOf(found->second.kind).has_launches();
  return host ? "cuda_host" : "cuda";
}

std::string ShapesText(const Problem& problem, std::string_view target) {
  if (problem.axes.empty()) return "";
  const auto found = problem.targets.find(target);
  const std::vector<AxisValues>& shapes =
      found == problem.targets.end() ? problem.check_shapes : found->second.check_shapes;
  std::string text = "- Also checked at: ";
  for (const AxisValues& shape : shapes) {
    std::string axes;
    for (const auto& [name, value] : shape) {
      absl::StrAppend(&axes, axes.empty() ? "" : ", ", Inline(name), "=", value);
    }
    absl::StrAppend(&text, axes, "; ");
  }
  absl::StrAppend(&text, "and at shapes drawn from");
  for (const Axis& axis : problem.axes) {
    absl::StrAppend(&text, " ", Inline(axis.name), " in [", axis.held_out_low, ", ",
                    axis.held_out_high, "]");
    if (axis.multiple_of > 1) absl::StrAppend(&text, " by ", axis.multiple_of);
  }
  return absl::StrCat(text, "\n");
}

std::string FlagsText(const std::vector<std::string>& flags) {
  if (flags.empty()) return "";
  return absl::StrCat("Flags of the compiler that can be asked for: ", InlineList(flags, " "),
                      "\n");
}

std::string_view OutcomeText(const std::optional<FailureKind>& failure) {
  if (!failure) return "Not measured: it was forecast to be no faster than the fastest";
  switch (*failure) {
    case FailureKind::kCompileError: return "Does not compile";
    case FailureKind::kWrongResult: return "Wrong result";
    case FailureKind::kCrash: return "Crashed";
    case FailureKind::kTimeout: return "Took too long";
    case FailureKind::kExploit: return "Disqualified";
  }
  return "Failed";
}

std::string SetbacksText(const GenerationQuery& query, const std::string& parent_id,
                         Detail detail) {
  if (query.setbacks.empty() || detail >= Detail::kNoSetbacks) return "None.\n";
  std::string text;
  size_t sources = 0;
  for (const Attempt& setback : query.setbacks) {
    absl::StrAppend(&text, "- ", std::string(OutcomeText(setback.failure)),
                    setback.candidate.parent_candidate_id == parent_id
                        ? ", made from the kernel to improve on"
                        : "",
                    ":\n\n", Fenced(setback.feedback, "text"));
    const bool shown = detail == Detail::kAll && sources < kSourcesShown &&
                       setback.candidate.source.size() <= kMaxShownSourceBytes;
    if (shown) {
      ++sources;
      absl::StrAppend(&text, "\n", CandidateText(setback.candidate));
    }
    text += '\n';
  }
  return text;
}

std::string UnusableText(const std::vector<std::string>& reasons) {
  if (reasons.empty()) return "";
  std::string text = "Your latest answers that no kernel came of:\n\n";
  for (const std::string& reason : reasons) {
    absl::StrAppend(&text, "- ", Inline(reason, kMaxLineBytes), "\n");
  }
  return absl::StrCat(text, "\n");
}

std::string MeasuredText(const Attempt& attempt) {
  return absl::StrCat("It was measured:\n\n", Fenced(attempt.feedback, "text"), "\n",
                      CandidateText(attempt.candidate));
}

std::string BestText(const GenerationQuery& query, Detail detail) {
  if (query.best.has_value()) {
    if (detail < Detail::kNoBest) return MeasuredText(*query.best);
    return absl::StrCat("It runs ", NumberText(query.best->speedup, 4),
                        " times as fast as the reference.\n");
  }
  return query.parent.has_value() ? "That is the kernel below.\n"
                                  : "Nothing was found to be correct yet but the reference.\n";
}

std::string ParentText(const GenerationQuery& query) {
  if (!query.parent.has_value()) return "That is the reference.\n";
  return absl::StrCat(MeasuredText(*query.parent), "\nWhat compiling it tells:\n\n",
                      FactsText(query.parent->facts, query.reference_facts));
}

std::string ChangeSection(const GenerationQuery& query, Detail detail) {
  if (!query.parent || !query.grandparent || detail >= Detail::kNoChange) return "";
  const std::string text = ChangeText(*query.parent, *query.grandparent, kMaxChangeBytes);
  return text.empty() ? "" : absl::StrCat("# What made it faster\n\n", text, "\n");
}

std::string AdviceSection(const std::string& advice) {
  if (advice.empty()) return "";
  return absl::StrCat("# The next step\n\nA reviewer of the above proposes:\n\n",
                      Fenced(advice, "text"), "\nFollow it where it is right; you decide.\n\n");
}

std::string LessonText(const Lesson& lesson, std::string_view device_model) {
  const GainEstimate effect = EstimateOf(lesson, device_model);
  const auto factor = [](double log2) { return NumberText(std::exp2(log2), 3); };
  std::string text = absl::StrCat(
      "- ", Inline(lesson.aspect, kMaxLineBytes), " changed from ", Inline(lesson.from), " to ",
      Inline(lesson.to), ": ", factor(effect.mean), " times as fast (95% interval ",
      factor(effect.low()), " to ", factor(effect.high()), "), held in ", lesson.held, " of ",
      lesson.trials, lesson.trials == 1 ? " pair" : " pairs", " of kernels");
  if (!lesson.bottleneck.empty()) {
    absl::StrAppend(&text, ", where ", Inline(lesson.bottleneck), " bounded the kernel before");
  }
  if (lesson.device_model != device_model) text += ", on another device";
  text += '\n';
  if (!lesson.text.empty()) {
    absl::StrAppend(&text, "  Note: ", Inline(lesson.text, kMaxLineBytes), "\n");
  }
  return text;
}

std::string LessonsSection(const GenerationQuery& query) {
  if (query.lessons.empty()) return "";
  std::string text =
      "# What earlier searches showed\n\nMeasured on other kernels of this family of operations. "
      "Each line is data about one change, and may not hold here:\n\n";
  for (const Lesson& lesson : query.lessons) text += LessonText(lesson, query.device_model);
  return absl::StrCat(text, "\n");
}

// The user text, with less detail if both texts exceed `max_bytes`. Adds what depends on the detail
// to `values`.
absl::StatusOr<KernelPromptText> Fitted(const PromptTemplate& user, const GenerationQuery& query,
                                        std::string system, PromptTemplate::Values values,
                                        size_t max_bytes) {
  std::string parent_id;
  if (query.parent.has_value()) {
    parent_id = query.parent->candidate.candidate_id;
  } else if (const absl::StatusOr<Candidate> reference =
                 ReferenceCandidate(*query.problem, query.target);
             reference.ok()) {
    parent_id = reference->candidate_id;
  }
  KernelPromptText rendered;
  rendered.system = std::move(system);
  for (const Detail detail : kDetails) {
    values["setbacks"] = SetbacksText(query, parent_id, detail);
    values["best"] = BestText(query, detail);
    values["change"] = ChangeSection(query, detail);
    rendered.user = user.Render(values);
    if (rendered.system.size() + rendered.user.size() <= max_bytes) return rendered;
  }
  return absl::ResourceExhaustedError(absl::StrCat("the prompt would have ",
                                                   rendered.system.size() + rendered.user.size(),
                                                   " bytes; the limit is ", max_bytes));
}

PromptTemplate::Values UserValues(const GenerationQuery& query, const KernelSite& site) {
  const Problem& problem = *query.problem;
  std::string hardware = HardwareText(site.device, query.target);
  if (!site.toolchain.empty()) {
    absl::StrAppend(&hardware, "- Compiler: ", Inline(site.toolchain), "\n");
  }
  const Attempt* parent = query.parent ? &*query.parent : nullptr;
  return {{"hardware", hardware},
          {"task", TaskText(problem, query.target)},
          {"shapes", ShapesText(problem, query.target)},
          {"reference", ReferenceText(problem, query.target)},
          {"unusable", UnusableText(query.unusable_answers)},
          {"parent", ParentText(query)},
          {"profile", ProfileText(parent, query.reference_facts)},
          {"advice", AdviceSection(query.advice)},
          {"lessons", LessonsSection(query)}};
}

}  // namespace

absl::StatusOr<KernelPrompt> KernelPrompt::Parse(const std::string& where,
                                                 const PromptFiles& files) {
  const auto at = [&where](const std::string& file, const absl::Status& status) {
    return WithPrefix(absl::StrCat(where, file, ": "), status);
  };
  KernelPrompt prompt;
  absl::StatusOr<std::string> version = ParseVersion(files.Text("prompt.json"));
  if (!version.ok()) return at("prompt.json", version.status());
  const auto parse = [&](const std::string& file, std::span<const std::string_view> names,
                         PromptTemplate& into) -> absl::Status {
    absl::StatusOr<PromptTemplate> parsed = PromptTemplate::Parse(files.Text(file), names);
    if (!parsed.ok()) return at(file, parsed.status());
    into = *std::move(parsed);
    return absl::OkStatus();
  };
  KC_RETURN_IF_ERROR(parse("system.txt", kSystemNames, prompt.system_));
  KC_RETURN_IF_ERROR(parse("user.txt", kUserNames, prompt.user_));
  if (std::ranges::find(prompt.user_.names(), "parent") == prompt.user_.names().end()) {
    return at("user.txt", absl::InvalidArgumentError("{{parent}} must be in it"));
  }
  KC_RETURN_IF_ERROR(parse("critic_system.txt", {}, prompt.critic_system_));
  KC_RETURN_IF_ERROR(parse("critic_user.txt", kUserNames, prompt.critic_user_));
  for (const std::string_view kind : kKinds) {
    Kind& added = prompt.kinds_[std::string(kind)];
    KC_RETURN_IF_ERROR(parse(absl::StrCat(std::string(kind), ".txt"), kKindNames, added.contract));
    KC_RETURN_IF_ERROR(
        parse(absl::StrCat(std::string(kind), "_answer.txt"), kKindNames, added.answer_form));
  }
  ContentHasher hasher;
  hasher.Add(kRenderingVersion).Add(CandidateHeader());
  for (const std::string_view name : kFileNames) hasher.Add(name).Add(files.Text(name));
  prompt.version_ = NamedPromptVersion(*version, hasher.Hex128());
  return prompt;
}

absl::StatusOr<KernelPrompt> KernelPrompt::Builtin() {
  const PromptFiles files = PromptFolders(EmbeddedPromptFiles()).front();
  return Parse(absl::StrCat(files.folder, "/"), files);
}

absl::StatusOr<KernelPrompt> KernelPrompt::Load(const std::string& directory) {
  KC_ASSIGN_OR_RETURN(const PromptFiles files, ReadPromptFolder(directory, kFileNames));
  return Parse(absl::StrCat(directory, "/"), files);
}

absl::StatusOr<KernelPromptText> KernelPrompt::Render(const GenerationQuery& query,
                                                      const KernelSite& site,
                                                      size_t max_bytes) const {
  const Problem& problem = *query.problem;
  const Kind& kind = kinds_.find(KindOf(problem, query.target))->second;
  const PromptTemplate::Values of_kind = {{"abi", Fenced(CandidateHeader(), "cpp")},
                                          {"flags", FlagsText(site.allowed_flags)}};
  std::string system = system_.Render({{"contract", kind.contract.Render(of_kind)},
                                       {"answer_form", kind.answer_form.Render(of_kind)}});
  return Fitted(user_, query, std::move(system), UserValues(query, site), max_bytes);
}

absl::StatusOr<KernelPromptText> KernelPrompt::RenderCritic(const GenerationQuery& query,
                                                            const KernelSite& site,
                                                            size_t max_bytes) const {
  return Fitted(critic_user_, query, critic_system_.Render({}), UserValues(query, site), max_bytes);
}

}  // namespace kernelcast::orchestrator
