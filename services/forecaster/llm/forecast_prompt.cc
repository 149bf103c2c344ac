#include "services/forecaster/llm/forecast_prompt.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/base/strings.h"
#include "common/domain/text.h"
#include "common/prompt/prompt_files.h"
#include "services/forecaster/core/answer_parser.h"
#include "services/forecaster/llm/builtin_prompts.h"

namespace kernelcast::forecaster {
namespace {

// Must change when prompt_text.cc or answer_schema.cc produce different bytes for the same input.
constexpr std::string_view kRenderingVersion = "1";
constexpr std::string_view kFileNames[] = {"prompt.json", "system.txt", "user.txt"};

constexpr std::string_view kSystemNames[] = {"bin_table", "answer_schema", "answer_example",
                                             "submit_tool", "defer_tool"};
constexpr std::string_view kUserNames[] = {"hardware", "task",  "reference",  "baseline",
                                           "feedback", "facts", "simulation", "candidate"};

// Content of prompt.json.
struct Description {
  std::string version;
  AnswerForm form = AnswerForm::kExtended;
  bool may_defer = true;
  std::vector<Rung> rungs;
};

absl::StatusOr<Description> ParseDescription(std::string_view text) {
  using nlohmann::json;
  const json object = ParseBoundedJson(text);
  if (!object.is_object()) return absl::InvalidArgumentError("no JSON object");
  Description description;
  for (const auto& [key, value] : object.items()) {
    if (key != "version" && key != "answer" && key != "may_defer" && key != "rungs") {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(key), " is not one of answer, may_defer, rungs, version"));
    }
  }
  for (const char* key : {"version", "answer"}) {
    if (!object.contains(key) || !object[key].is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(key, ": a string is wanted"));
    }
  }
  description.version = object["version"].get<std::string>();
  if (const absl::Status named = CheckPromptVersion(description.version); !named.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("version: ", named.message()));
  }
  const absl::StatusOr<AnswerForm> form =
      ParseAnswerForm(object["answer"].get_ref<const std::string&>());
  if (!form.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("answer: ", form.status().message()));
  }
  description.form = *form;
  if (object.contains("may_defer")) {
    if (!object["may_defer"].is_boolean()) {
      return absl::InvalidArgumentError("may_defer: true or false is wanted");
    }
    description.may_defer = object["may_defer"].get<bool>();
  }
  if (!object.contains("rungs") || !object["rungs"].is_array() || object["rungs"].empty()) {
    return absl::InvalidArgumentError("rungs: a list of names is wanted");
  }
  for (const json& name : object["rungs"]) {
    const absl::StatusOr<Rung> rung = ParseRung(name.is_string() ? name.get<std::string>() : "");
    if (!rung.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("rungs: ", rung.status().message()));
    }
    if (std::ranges::find(description.rungs, *rung) != description.rungs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rungs: ", std::string(Name(*rung)), " is given twice"));
    }
    description.rungs.push_back(*rung);
  }
  return description;
}

PromptTemplate::Values SystemValues(const BinScheme& scheme, AnswerForm form, bool may_defer) {
  return {{"bin_table", scheme.PromptTable()},
          {"answer_schema", AnswerSchema(scheme, form, may_defer).dump(2) + "\n"},
          {"answer_example", AnswerExample(scheme, form, may_defer)},
          {"submit_tool", std::string(kSubmitToolName)},
          {"defer_tool", std::string(kDeferToolName)}};
}

}  // namespace

absl::StatusOr<ForecastPrompt> ForecastPrompt::Parse(const std::string& where,
                                                     std::string_view description,
                                                     std::string_view system,
                                                     std::string_view user) {
  const auto at = [&where](const char* file, const absl::Status& status) {
    return WithPrefix(absl::StrCat(where, file, ": "), status);
  };
  ForecastPrompt prompt;
  absl::StatusOr<Description> parsed = ParseDescription(description);
  if (!parsed.ok()) return at("prompt.json", parsed.status());
  prompt.form_ = parsed->form;
  prompt.may_defer_ = parsed->may_defer;
  prompt.rungs_ = std::move(parsed->rungs);
  absl::StatusOr<PromptTemplate> system_template = PromptTemplate::Parse(system, kSystemNames);
  if (!system_template.ok()) return at("system.txt", system_template.status());
  prompt.system_ = *std::move(system_template);
  // The candidate's text ends in a newline of its own.
  const std::string_view user_text = user.substr(0, user.size() - (user.ends_with('\n') ? 1 : 0));
  absl::StatusOr<PromptTemplate> user_template = PromptTemplate::Parse(user_text, kUserNames);
  if (!user_template.ok()) return at("user.txt", user_template.status());
  prompt.user_ = *std::move(user_template);
  const std::vector<std::string>& names = prompt.user_.names();
  if (std::ranges::count(names, "candidate") != 1 || names.back() != "candidate" ||
      !IsBlank(prompt.user_.tail())) {
    return at("user.txt", absl::InvalidArgumentError("{{candidate}} must be in it once, and last"));
  }

  ContentHasher hasher;
  hasher.Add(kRenderingVersion).Add(description).Add(system).Add(user);
  for (const BinScheme* scheme : BinScheme::All()) {
    hasher.Add(scheme->PromptTable())
        .Add(SubmitTool(*scheme, prompt.form_, /*may_defer=*/true).dump())
        .Add(SubmitTool(*scheme, prompt.form_, /*may_defer=*/false).dump());
  }
  hasher.Add(DeferTool().dump());
  prompt.hash_ = hasher.Hex128();
  prompt.version_ = NamedPromptVersion(parsed->version, prompt.hash_);
  return prompt;
}

absl::StatusOr<ForecastPrompt> ForecastPrompt::Parse(const std::string& where,
                                                     const PromptFiles& files) {
  return Parse(where, files.Text(kFileNames[0]), files.Text(kFileNames[1]),
               files.Text(kFileNames[2]));
}

absl::StatusOr<ForecastPrompt> ForecastPrompt::Builtin(std::string_view version) {
  for (const PromptFiles& files : PromptFolders(EmbeddedPromptFiles())) {
    KC_ASSIGN_OR_RETURN(ForecastPrompt prompt, Parse(absl::StrCat(files.folder, "/"), files));
    if (WithoutPromptHash(prompt.version_) == version) return prompt;
  }
  return absl::NotFoundError(
      absl::StrCat("prompt ", Quoted(version), " is not one of ", CommaList(BuiltinVersions())));
}

std::vector<std::string> ForecastPrompt::BuiltinVersions() {
  std::vector<std::string> versions;
  for (const PromptFiles& files : PromptFolders(EmbeddedPromptFiles())) {
    const absl::StatusOr<Description> description = ParseDescription(files.Text(kFileNames[0]));
    if (description.ok()) versions.push_back(description->version);
  }
  return versions;
}

absl::StatusOr<ForecastPrompt> ForecastPrompt::Load(const std::string& directory) {
  KC_ASSIGN_OR_RETURN(const PromptFiles files, ReadPromptFolder(directory, kFileNames));
  return Parse(absl::StrCat(directory, "/"), files);
}

PromptDescription ForecastPrompt::Describe() const {
  PromptDescription description;
  description.version = version_;
  description.hash = hash_;
  description.system_template = system_.text();
  description.user_template = user_.text();
  description.answer_schema = SubmitTool(BinScheme::Default(), form_, /*may_defer=*/false)
                                  .at("function")
                                  .at("parameters")
                                  .dump();
  return description;
}

absl::StatusOr<RenderedPrompt> ForecastPrompt::Render(const ForecastInput& input,
                                                      const std::vector<FeedbackEntry>& feedback,
                                                      size_t max_bytes) const {
  const Problem& problem = input.problem->problem;
  const std::string& target = input.candidate.target;
  RenderedPrompt rendered;
  rendered.version = version_;
  rendered.system = system_.Render(SystemValues(*input.bin_scheme, form_, may_defer_));
  PromptTemplate::Values values = {
      {"hardware", HardwareText(input.device, target)},
      {"task", TaskText(problem, target)},
      {"reference", ReferenceText(problem, target)},
      {"baseline", BaselineText(input)},
      {"feedback", FeedbackText(feedback)},
      {"facts", FactsText(input.facts, input.reference_facts)},
      {"simulation", SimulationText(input.facts, input.reference_facts)},
      {"candidate", CandidateText(input.candidate)},
  };
  if (const AnchorKernel* anchor = input.anchor.get()) {
    // The tables have a column for the kernel compared with.
    constexpr const char* kColumn = "The column \"reference\" is the baseline's.\n\n";
    if (!anchor->facts.schema.empty()) {
      values["facts"] = absl::StrCat(kColumn, FactsText(input.facts, anchor->facts));
      values["simulation"] = absl::StrCat(kColumn, SimulationText(input.facts, anchor->facts));
    }
    if (form_ == AnswerForm::kPaper) {
      // In that prompt, the reference kernel is the one that the candidate is compared with.
      values["reference"] = CandidateText(anchor->candidate);
      values["baseline"] = AnchorText(*anchor, /*with_source=*/false);
    }
  }
  rendered.user = user_.Render(values);
  if (rendered.system.size() + rendered.user.size() > max_bytes && !feedback.empty()) {
    values["feedback"] = FeedbackText({});
    rendered.user = user_.Render(values);
  }
  const size_t bytes = rendered.system.size() + rendered.user.size();
  if (bytes > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the prompt would have ", bytes, " bytes; the limit is ", max_bytes));
  }
  return rendered;
}

}  // namespace kernelcast::forecaster
