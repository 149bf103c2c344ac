#include "services/forecaster/rpc/question_file.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "services/forecaster/llm/request_shape.h"
#include "services/forecaster/rpc/conversion.h"

namespace kernelcast::forecaster {
namespace {

constexpr const char* kUnknownFamily = "unknown";

using Problems = std::map<std::string, std::shared_ptr<const ProblemContext>>;

// Lines of JSON in a file.
class LineWriter {
 public:
  explicit LineWriter(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "we")) {}
  ~LineWriter() {
    if (file_ != nullptr) std::fclose(file_);
  }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Each line is in the file when this returns.
  void Write(const OrderedJson& line) {
    if (file_ == nullptr) return;
    const std::string text =
        line.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    written_ = written_ && std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
               std::fflush(file_) == 0;
  }
  absl::Status status() const {
    if (file_ != nullptr && written_) return absl::OkStatus();
    return absl::PermissionDeniedError(absl::StrCat("cannot write ", path_));
  }

 private:
  const std::string path_;
  std::FILE* file_;
  bool written_ = true;
};

OrderedJson MessageJson(const google::protobuf::Message& message) {
  return ParseBoundedJson<OrderedJson>(ProtoToJson(message));
}

absl::StatusOr<std::string> TextOf(const OrderedJson& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || !found->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": a string is wanted"));
  }
  return found->get<std::string>();
}

// The part of a problem that a prompt shows, with the anchor as the reference of `target`.
Problem WithReference(const Problem* known, const std::string& pack, const std::string& target,
                      const std::string& anchor) {
  Problem problem;
  problem.title = pack;
  problem.family = kUnknownFamily;
  ProblemTarget shown;
  if (known != nullptr) {
    problem.problem_id = known->problem_id;
    problem.name = known->name;
    problem.title = known->title;
    problem.family = known->family;
    problem.description = known->description;
    problem.axes = known->axes;
    problem.inputs = known->inputs;
    problem.outputs = known->outputs;
    problem.bench_shapes = known->bench_shapes;
    problem.bench_weights = known->bench_weights;
    problem.flops = known->flops;
    problem.bytes = known->bytes;
    const auto found = known->targets.find(target);
    if (found != known->targets.end()) {
      shown.bench_shapes = found->second.bench_shapes;
      shown.bench_weights = found->second.bench_weights;
      if (found->second.reference.source == anchor) shown.reference = found->second.reference;
    }
  }
  // Published sources come without a kind.
  shown.kind = GuessKind(anchor);
  shown.reference.source = anchor;
  problem.targets.emplace(target, std::move(shown));
  return problem;
}

absl::StatusOr<ForecastInput> InputOfPair(const OrderedJson& pair, const Problems& problems) {
  KC_ASSIGN_OR_RETURN(const std::string pack, TextOf(pair, "pack"));
  KC_ASSIGN_OR_RETURN(const std::string anchor, TextOf(pair, "anchor_code"));
  KC_ASSIGN_OR_RETURN(const std::string source, TextOf(pair, "candidate_code"));
  KC_ASSIGN_OR_RETURN(const std::string hardware, TextOf(pair, "hardware"));
  KC_ASSIGN_OR_RETURN(const std::string scheme, TextOf(pair, "bin_scheme_id"));
  KC_ASSIGN_OR_RETURN(const std::string problem_id, TextOf(pair, "problem_id"));
  const Problem* known = nullptr;
  if (!problem_id.empty()) {
    const auto found = problems.find(problem_id);
    if (found == problems.end()) {
      return absl::NotFoundError(absl::StrCat("problem_id: no problem ", problem_id, " above"));
    }
    known = &found->second->problem;
  }
  // Device models of GPUs are NVIDIA's here. Published rows name no target.
  const bool cpu = known != nullptr && !absl::StrContains(hardware, "NVIDIA") &&
                   known->targets.count(kCpuTargetName) > 0;
  const std::string target(cpu ? kCpuTargetName : kCudaTargetName);
  ForecastInput input;
  input.problem =
      std::make_shared<const ProblemContext>(WithReference(known, pack, target, anchor));
  KC_ASSIGN_OR_RETURN(input.bin_scheme, BinScheme::Find(scheme));
  input.candidate.problem_id = problem_id;
  input.candidate.target = target;
  input.candidate.kind = GuessKind(source);
  input.candidate.source = source;
  input.candidate.candidate_id = CandidateId(input.candidate);
  input.device.model = hardware;
  if (!hardware.empty()) input.device_model = hardware;
  return input;
}

absl::StatusOr<ForecastInput> InputOfRequest(const OrderedJson& json, const Problems& problems) {
  v1::ForecastRequest request;
  KC_RETURN_IF_ERROR(ProtoFromJson(json.dump(), &request));
  ReceivedCandidates none;
  KC_ASSIGN_OR_RETURN(ForecastInput input, forecaster::FromProto(request, none));
  const auto found = problems.find(input.candidate.problem_id);
  if (found == problems.end()) {
    return absl::NotFoundError(
        absl::StrCat("candidate.problem_id: no problem ", input.candidate.problem_id, " above"));
  }
  input.problem = found->second;
  return input;
}

absl::Status ReadLine(const std::string& text, Problems& problems,
                      std::vector<Question>& questions) {
  const OrderedJson line = ParseBoundedJson<OrderedJson>(text);
  if (!line.is_object()) return absl::InvalidArgumentError("no JSON object");
  if (line.contains("problem")) {
    v1::Problem proto;
    KC_RETURN_IF_ERROR(ProtoFromJson(line["problem"].dump(), &proto));
    KC_ASSIGN_OR_RETURN(Problem problem, ProblemFromProto(proto));
    const std::string id = problem.problem_id;
    problems[id] = std::make_shared<const ProblemContext>(std::move(problem));
    return absl::OkStatus();
  }
  Question question;
  KC_ASSIGN_OR_RETURN(question.id, TextOf(line, "id"));
  if (line.contains("request")) {
    KC_ASSIGN_OR_RETURN(question.input, InputOfRequest(line["request"], problems));
  } else if (line.contains("pair") && line["pair"].is_object()) {
    KC_ASSIGN_OR_RETURN(question.input, InputOfPair(line["pair"], problems));
  } else {
    return absl::InvalidArgumentError("neither a problem, nor a request, nor a pair");
  }
  questions.push_back(std::move(question));
  return absl::OkStatus();
}

OrderedJson AnswerLine(const std::string& id, const ForecastResult& result) {
  OrderedJson line = {{"id", id}};
  if (const auto* forecast = std::get_if<Forecast>(&result)) {
    line["forecast"] = MessageJson(kernelcast::ToProto(*forecast));
  } else {
    line["abstention"] = MessageJson(kernelcast::ToProto(std::get<Abstention>(result)));
  }
  return line;
}

}  // namespace

absl::StatusOr<std::vector<Question>> ReadQuestions(const std::string& path) {
  Problems problems;
  std::vector<Question> questions;
  KC_RETURN_IF_ERROR(ForEachGzipRecord(
      path, [&](const std::string& line) { return ReadLine(line, problems, questions); }));
  return questions;
}

absl::Status WritePrompts(const std::vector<Question>& questions, const ForecastPrompt& prompt,
                          size_t max_prompt_bytes, const std::string& path) {
  LineWriter file(path);
  const RequestShapes shapes(prompt.form(), prompt.may_defer());
  for (const Question& question : questions) {
    OrderedJson line = {{"id", question.id}};
    const absl::StatusOr<RenderedPrompt> rendered =
        prompt.Render(question.input, {}, max_prompt_bytes);
    if (!rendered.ok()) {
      line["error"] = std::string(rendered.status().message());
      file.Write(line);
      continue;
    }
    const auto add = [&line](const char* field, const std::string& json) {
      if (!json.empty()) line[field] = ParseBoundedJson<OrderedJson>(json);
    };
    const llm::ResponseShape& shape = shapes.At(prompt.rungs().front(), *question.input.bin_scheme);
    line["prompt_version"] = rendered->version;
    add("messages", llm::Prompt(MessagesOf(*rendered)).json());
    add("response_format", shape.response_format);
    add("tools", shape.tools);
    add("tool_choice", shape.tool_choice);
    file.Write(line);
  }
  return file.status();
}

absl::Status AskQuestions(std::vector<Question> questions, Backend& backend,
                          const AskOptions& options, const Clock& clock, const std::string& path) {
  LineWriter file(path);
  std::mutex mutex;  // guards the file and the number of open questions
  std::condition_variable answered;
  size_t open = 0;
  for (Question& question : questions) {
    {
      std::unique_lock lock(mutex);
      answered.wait(lock, [&] { return open < options.max_in_flight; });
      if (!file.status().ok()) break;
      ++open;
    }
    ForecastCall call;
    call.deadline_ns = clock.MonotonicNs() + options.timeout_ns;
    const int64_t start_ns = clock.MonotonicNs();
    backend.Forecast(std::move(question.input), call,
                     [&, id = question.id, start_ns](ForecastResult result) {
                       if (auto* forecast = std::get_if<Forecast>(&result)) {
                         forecast->latency_ns = clock.MonotonicNs() - start_ns;
                       }
                       const std::lock_guard lock(mutex);
                       file.Write(AnswerLine(id, result));
                       --open;
                       answered.notify_one();
                     });
  }
  std::unique_lock lock(mutex);
  answered.wait(lock, [&] { return open == 0; });
  return file.status();
}

}  // namespace kernelcast::forecaster
