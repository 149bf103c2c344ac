// compile, measure and forecast: call one service directly, to work on kernels or on Kernelcast
// itself.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/id.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/domain/facts.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "services/cli/commands/connection.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/problem_argument.h"
#include "services/cli/core/candidate_files.h"
#include "services/cli/core/not_simulated.h"
#include "services/cli/core/table.h"
#include "services/cli/report/analysis.h"
#include "services/cli/report/search_json.h"
#include "services/cli/rpc/channel.h"

namespace kernelcast::cli {
namespace {

constexpr absl::Duration kCompileTimeout = absl::Minutes(5);
constexpr absl::Duration kMeasureTimeout = absl::Minutes(30);
// For a reasoning model.
constexpr absl::Duration kForecastTimeout = absl::Minutes(10);
constexpr size_t kShownStalls = 4;
constexpr int kFaultWidth = 24;
// Length of a model's text; --json prints all of it.
constexpr int kNoteWidth = 300;

const std::map<std::string, v1::MeasureLevel>& Levels() {
  static const auto* const levels =
      new std::map<std::string, v1::MeasureLevel>{{"screen", v1::MEASURE_LEVEL_SCREEN},
                                                  {"final", v1::MEASURE_LEVEL_FINAL},
                                                  {"check", v1::MEASURE_LEVEL_CHECK}};
  return *levels;
}

struct WorkerFlags {
  ConnectionFlags connection;
  std::string problem;
  TaskOptions task_options;
  std::string target;
  std::string candidates;
  bool reference = false;
  bool facts = false;
  bool show_prompt = false;
  std::string level = "screen";
  bool counters = false;
};

// The most informative facts of each schema.
constexpr std::array<std::string_view, 5> kShownCpuFacts = {
    "text_bytes", "widest_vector_bytes", "loops", "inner_packed_share", "stack_accesses"};
constexpr std::array<std::string_view, 5> kShownCudaFacts = {
    "code_bytes", "registers", "spill_load_bytes", "static_shared_bytes", "launch_occupancy"};

// The virtual GPU's estimate for all launches at all bench shapes; "-" if one is not covered.
std::string EstimateText(const CompileFacts& facts) {
  double total_ns = 0;
  for (const ShapeSimulation& simulation : facts.simulations) {
    const absl::StatusOr<const FactSchema*> schema = FindSimulationSchema(simulation.schema);
    if (!schema.ok()) return "-";
    const auto& names = (*schema)->names;
    const auto at =
        static_cast<size_t>(std::find(names.begin(), names.end(), "estimated_ns") - names.begin());
    for (const LaunchSimulation& launch : simulation.launches) {
      if (!launch.not_covered.empty() || at >= launch.values.size()) return "-";
      total_ns += launch.values[at];
    }
  }
  return total_ns > 0 ? FormatTimeNs(total_ns) : "-";
}

// Why the virtual GPU's outputs were not compared with the oracle's; empty if they were, or if
// nothing was checked.
std::string NotComparedText(const CompileFacts& facts) {
  for (const ShapeSimulation& simulation : facts.simulations) {
    if (!simulation.not_compared.empty()) return OneLine(simulation.not_compared);
  }
  return "";
}

// The comparison of the virtual GPU's outputs with the oracle's.
std::string OutputsText(const CompileFacts& facts) {
  for (const ShapeSimulation& simulation : facts.simulations) {
    if (simulation.findings_schema != kCudaFindingsSchemaId) continue;
    if (!simulation.not_compared.empty()) return "not compared";
    return OutputsAgreed(simulation) ? "agree" : "wrong";
  }
  return "-";
}

Json FindingsJson(const LaunchSimulation& launch) {
  Json findings = Json::array();
  for (const Finding& finding : launch.findings) {
    findings.push_back({{"kind", std::string(FindingName(finding.kind))},
                        {"meaning", std::string(FindingMeaning(finding.kind))},
                        {"ptx_line", finding.ptx_line},
                        {"source_line", finding.source_line},
                        {"detail", finding.detail},
                        {"count", finding.count}});
  }
  return findings;
}

// The place of a finding, after the name of its kernel.
std::string PlaceText(const Finding& finding) {
  if (finding.source_line > 0) return absl::StrCat(", line ", finding.source_line);
  if (finding.ptx_line > 0) return absl::StrCat(", PTX line ", finding.ptx_line);
  return "";
}

// One line per finding of a candidate; findings that repeat at other shapes are omitted.
std::string FindingsText(const CompileFacts& facts) {
  std::string text;
  std::set<std::tuple<std::string, FindingKind, int>> shown;
  for (const ShapeSimulation& simulation : facts.simulations) {
    for (const LaunchSimulation& launch : simulation.launches) {
      for (const Finding& finding : launch.findings) {
        if (!shown.emplace(launch.kernel, finding.kind, finding.ptx_line).second) continue;
        absl::StrAppend(&text, "  ", OneLine(launch.kernel), PlaceText(finding), ": ",
                        std::string(FindingMeaning(finding.kind)), " (",
                        std::string(FindingName(finding.kind)), ", ", finding.count,
                        "x): ", OneLine(finding.detail), "\n");
      }
    }
  }
  return text;
}

// The simulations with fact names. With `with_rows` also adds table rows with all facts.
Json SimulationsJson(const CompileFacts& facts, const std::string& name, bool with_rows,
                     Table& rows) {
  Json all = Json::array();
  for (size_t shape = 0; shape < facts.simulations.size(); ++shape) {
    const ShapeSimulation& simulation = facts.simulations[shape];
    const absl::StatusOr<const FactSchema*> schema = FindSimulationSchema(simulation.schema);
    if (!schema.ok()) continue;
    Json launches = Json::array();
    for (const LaunchSimulation& launch : simulation.launches) {
      Json named = Json::object();
      const std::string who =
          absl::StrCat(OneLine(name), " ", OneLine(launch.kernel),
                       facts.simulations.size() > 1 ? absl::StrCat(" at shape ", shape + 1) : "");
      if (with_rows && !launch.not_covered.empty()) {
        rows.AddRow({who, "not covered", "", OneLine(launch.not_covered)});
      }
      for (size_t i = 0; i < std::min(launch.values.size(), (*schema)->names.size()); ++i) {
        named[std::string((*schema)->names[i])] = launch.values[i];
        if (!with_rows) continue;
        rows.AddRow({who, std::string((*schema)->names[i]), FormatNumber(launch.values[i]),
                     std::string((*schema)->meanings[i])});
      }
      launches.push_back({{"kernel", launch.kernel},
                          {"not_covered", launch.not_covered},
                          {"not_checked", launch.not_checked},
                          {"findings", FindingsJson(launch)},
                          {"facts", std::move(named)}});
    }
    all.push_back({{"gpu", simulation.gpu},
                   {"findings_schema", simulation.findings_schema},
                   {"not_compared", simulation.not_compared},
                   {"outputs_agreed", OutputsAgreed(simulation)},
                   {"launches", std::move(launches)}});
  }
  return all;
}

std::string FactText(const CompileFacts& facts, std::string_view name) {
  const absl::StatusOr<const FactSchema*> schema = FindFactSchema(facts.schema);
  if (!schema.ok()) return "-";
  const auto& names = (*schema)->names;
  const auto found = std::find(names.begin(), names.end(), name);
  const auto index = static_cast<size_t>(found - names.begin());
  return index < facts.values.size() ? FormatNumber(facts.values[index]) : "-";
}

std::string StageName(v1::CompileError::Stage stage) {
  switch (stage) {
    case v1::CompileError::STAGE_ADMISSION: return "not admitted";
    case v1::CompileError::STAGE_LINKER: return "does not link";
    case v1::CompileError::STAGE_LIMIT: return "compiler limit exceeded";
    default: return "does not compile";
  }
}

// A problem on a worker, and its candidates.
struct Bench {
  LoadedProblem loaded;
  std::string target;
  std::vector<NamedCandidate> candidates;
  std::unique_ptr<v1::Worker::Stub> worker;
};

absl::StatusOr<Bench> MakeBench(Context& context, const WorkerFlags& flags,
                                Connection& connection) {
  Bench bench;
  KC_ASSIGN_OR_RETURN(bench.loaded, LoadProblem(context, flags.problem, flags.task_options));
  KC_ASSIGN_OR_RETURN(bench.target, ChooseTarget(bench.loaded.problem, flags.target));
  if (flags.candidates.empty() && !flags.reference) {
    return absl::InvalidArgumentError("--candidates is missing");
  }
  const auto read_candidates = [&]() -> absl::Status {
    if (flags.candidates.empty()) return absl::OkStatus();
    KC_ASSIGN_OR_RETURN(bench.candidates,
                        ReadCandidatesOf(bench.loaded.problem, flags.candidates, bench.target));
    return absl::OkStatus();
  };
  // Before the worker starts, so that a wrong file is reported at once.
  KC_RETURN_IF_ERROR(read_candidates());
  connection.PrepareFor(bench.loaded.problem);
  KC_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, connection.Worker());
  bench.worker = v1::Worker::NewStub(channel);
  v1::PutProblemReply known;
  KC_RETURN_IF_ERROR(
      Call(*bench.worker, &v1::Worker::Stub::PutProblem, PutRequest(bench.loaded.problem), &known));
  if (TakeDefaultTarget(context.console, flags.target, known, bench.target)) {
    KC_RETURN_IF_ERROR(read_candidates());
  }
  return bench;
}

// `candidate` null: compiles the reference.
absl::StatusOr<v1::CompileReply> Compile(const Bench& bench, const Candidate* candidate) {
  v1::CompileRequest request;
  request.set_request_id(RandomId("c_"));
  request.set_problem_id(bench.loaded.problem.problem_id);
  request.set_target(bench.target);
  if (candidate == nullptr) {
    request.set_reference(true);
  } else {
    *request.mutable_candidate() = ToProto(*candidate);
  }
  v1::CompileReply reply;
  KC_RETURN_IF_ERROR(
      Call(*bench.worker, &v1::Worker::Stub::Compile, request, &reply, kCompileTimeout));
  return reply;
}

// Compiles some candidates on the worker, several at a time, and shows how many are done.
class Compiling {
 public:
  // Null: the reference.
  using Subjects = std::vector<const Candidate*>;

  Compiling(const Context& context, const Bench& bench, Subjects subjects)
      : context_(context), bench_(bench), subjects_(std::move(subjects)) {
    replies_.resize(subjects_.size());
    running_ = std::min(subjects_.size(), CallsAtOnce(bench));
    for (size_t i = running_; i > 0; --i) threads_.emplace_back([this] { Run(); });
  }
  ~Compiling() {
    next_ = subjects_.size();
    {
      std::unique_lock lock(mutex_);
      // Nobody wants the replies. A call may begin after the others were cancelled.
      while (running_ > 0) {
        CancelCalls();
        replied_.wait_for(lock, kLook, [&] { return running_ == 0; });
      }
    }
    threads_.clear();
    context_.console.Draw({});
  }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

  // Waits for the reply about one subject. CANCELLED: interrupted.
  absl::StatusOr<v1::CompileReply> Await(size_t index) {
    for (;;) {
      KC_RETURN_IF_ERROR(CheckInterrupt(context_));
      std::unique_lock lock(mutex_);
      const size_t done = done_;
      // Lines of JSON on the same terminal would be overwritten.
      if (!context_.console.json()) {
        context_.console.Draw({absl::StrCat("compiled ", done, " of ", subjects_.size())});
      }
      if (replies_[index]) return *replies_[index];
      replied_.wait_for(lock, kLook, [&] { return done_ != done; });
    }
  }

 private:
  // Maximum delay until an interrupt is noticed.
  static constexpr std::chrono::milliseconds kLook{50};
  static constexpr uint32_t kMostCalls = 32;

  // A worker has room for some calls that wait. Half of it is left to others.
  static size_t CallsAtOnce(const Bench& bench) {
    v1::WorkerDescription description;
    const absl::Status described =
        Call(*bench.worker, &v1::Worker::Stub::Describe, v1::WorkerDescribeRequest(), &description);
    if (!described.ok()) return 1;
    return std::clamp<uint32_t>(description.compile_credits() / 2, 1, kMostCalls);
  }

  void Run() {
    for (size_t i = next_++; i < subjects_.size(); i = next_++) {
      absl::StatusOr<v1::CompileReply> reply = Compile(bench_, subjects_[i]);
      const std::lock_guard lock(mutex_);
      replies_[i] = std::move(reply);
      ++done_;
      replied_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    --running_;
    replied_.notify_one();
  }

  const Context& context_;
  const Bench& bench_;
  const Subjects subjects_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::condition_variable replied_;
  // Protected by mutex_.
  std::vector<std::optional<absl::StatusOr<v1::CompileReply>>> replies_;
  size_t done_ = 0;
  size_t running_ = 0;                 // threads
  std::vector<std::jthread> threads_;  // last: they use the members above
};

// Calls `visit` with each item until it fails or the user interrupts the command.
template <class Items, class Visit>
absl::Status ForEach(const Context& context, const Items& items, const Visit& visit) {
  for (const auto& item : items) {
    KC_RETURN_IF_ERROR(CheckInterrupt(context));
    KC_RETURN_IF_ERROR(visit(item));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunCompile(Context& context, const WorkerFlags& flags) {
  Console& console = context.console;
  Connection connection(context, flags.connection, Needs::kWorker);
  KC_ASSIGN_OR_RETURN(Bench bench, MakeBench(context, flags, connection));
  std::vector<Table::Column> columns = {
      {"candidate", Table::Align::kLeft, true}, {"result"}, {"time", Table::Align::kRight}};
  const auto kind = KindInfoOf(bench.loaded.problem.targets.at(bench.target).kind);
  const bool on_device = kind.has_launches();
  const bool simulates = on_device || bench.target == kCudaTargetName;
  std::span<const std::string_view> shown_facts = on_device ? kShownCudaFacts : kShownCpuFacts;
  if (kind.takes_tasks) shown_facts = {};
  for (const std::string_view name : shown_facts) {
    columns.push_back({std::string(name), Table::Align::kRight});
  }
  if (simulates) columns.push_back({"estimated", Table::Align::kRight});
  if (on_device) columns.push_back({"outputs"});
  Table table(columns);
  Table facts_table({{"candidate"}, {"fact"}, {"value", Table::Align::kRight}, {"meaning"}});
  std::string logs;
  bool all_good = true;
  std::vector<std::pair<std::string, const Candidate*>> subjects;
  if (flags.reference) subjects.emplace_back("reference", nullptr);
  for (const NamedCandidate& named : bench.candidates) {
    subjects.emplace_back(named.name, &named.candidate);
  }
  Compiling::Subjects sources;
  for (const auto& [name, candidate] : subjects) sources.push_back(candidate);
  std::optional<Compiling> compiling(std::in_place, context, bench, std::move(sources));
  NotSimulatedList not_simulated;
  size_t index = 0;
  const absl::Status status = ForEach(context, subjects, [&](const auto& subject) -> absl::Status {
    const auto& [name, candidate] = subject;
    KC_ASSIGN_OR_RETURN(const v1::CompileReply reply, compiling->Await(index++));
    Json line = {{"name", name}, {"compile", JsonOf(reply)}};
    // Where the other commands have it.
    if (reply.has_compile_error()) line["compile_error"] = JsonOf(reply.compile_error());
    const std::string time = FormatTimeNs(static_cast<double>(ToNanoseconds(reply.compile_time())));
    if (reply.has_compile_error()) {
      all_good = false;
      table.AddRow(
          {OneLine(name), console.style().Red(StageName(reply.compile_error().stage())), time});
      absl::StrAppend(&logs, "\n", OneLine(name), ":\n", ForTerminal(reply.compile_error().log()));
    } else {
      const CompileFacts facts = FromProto(reply.success().facts());
      std::vector<std::string> row = {OneLine(name), reply.cached() ? "ok, cached" : "ok", time};
      for (const std::string_view fact : shown_facts) row.push_back(FactText(facts, fact));
      if (simulates) row.push_back(EstimateText(facts));
      if (on_device) row.push_back(OutputsText(facts));
      table.AddRow(std::move(row));
      const absl::StatusOr<const FactSchema*> schema = FindFactSchema(facts.schema);
      if (schema.ok() && (*schema)->names.size() == facts.values.size()) {
        Json named = Json::object();
        for (size_t i = 0; i < facts.values.size(); ++i) {
          named[std::string((*schema)->names[i])] = facts.values[i];
          if (!flags.facts) continue;
          facts_table.AddRow({OneLine(name), std::string((*schema)->names[i]),
                              FormatNumber(facts.values[i]), std::string((*schema)->meanings[i])});
        }
        line["facts"] = std::move(named);
      }
      line["simulations"] = SimulationsJson(facts, name, flags.facts, facts_table);
      if (const std::string why = WhyNotSimulated(facts); !why.empty()) {
        line["not_simulated"] = why;
        not_simulated.Add(OneLine(name), why);
      }
      if (const std::string findings = FindingsText(facts); !findings.empty()) {
        absl::StrAppend(&logs, "\n", OneLine(name), ", found without a GPU:\n", findings);
      }
      if (const std::string why = NotComparedText(facts); !why.empty()) {
        absl::StrAppend(&logs, "\n", OneLine(name), ", outputs not compared: ", why, "\n");
      }
    }
    console.Line(line);
    return absl::OkStatus();
  });
  compiling.reset();
  if (!table.empty()) console.Out(table.Render(console.style(), console.width()));
  if (const std::string text = not_simulated.Render(console.width()); !text.empty()) {
    console.Out("\n" + text);
  }
  if (!facts_table.empty()) {
    console.Out("\n" + facts_table.Render(console.style(), console.width()));
  }
  console.Out(logs);
  KC_RETURN_IF_ERROR(status);
  return all_good ? ExitCode::kOk : ExitCode::kNegative;
}

std::string FormatShares(const std::vector<StallReason>& stalls) {
  std::string text;
  for (size_t i = 0; i < std::min(stalls.size(), kShownStalls); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", OneLine(stalls[i].reason), " ",
                    FormatShare(stalls[i].share));
  }
  return text;
}

// Formats "dram_read_bytes" as a size, "..._ratio" as a share, "..._ns" as a time.
std::string FormatCounter(std::string_view name, double value) {
  const auto ends = [name](std::string_view unit) {
    return name.size() > unit.size() && name.substr(name.size() - unit.size()) == unit;
  };
  if (ends("_bytes")) return FormatBytes(value);
  if (ends("_ratio")) return FormatShare(value);
  if (ends("_ns")) return FormatTimeNs(value);
  return FormatNumber(value);
}

// Determinism, notes, and profiler results of the candidate at each shape.
std::string FormatDetails(const MeasuredOk& ok) {
  std::string text;
  const std::string_view determinism = DeterminismPhrase(ok.determinism);
  if (!determinism.empty()) absl::StrAppend(&text, "  ", std::string(determinism), "\n");
  if (ok.compiled) absl::StrAppend(&text, "  ", CompiledPhrase(*ok.compiled), "\n");
  for (const MeasurementNote note : ok.notes) {
    absl::StrAppend(&text, "  note: ", std::string(NoteText(note)), "\n");
  }
  const std::string& reason = ok.environment.counters_unavailable_reason;
  if (!reason.empty()) {
    absl::StrAppend(&text, "  no hardware counters: ", OneLine(reason), "\n");
  }
  for (const ShapeTiming& timing : ok.shapes) {
    if (!timing.profile) continue;
    const ShapeProfile& profile = *timing.profile;
    absl::StrAppend(&text, "  ", OneLine(FormatAxes(timing.shape)), ": warm ",
                    FormatTimeNs(profile.warm_event_ns), " by events, ",
                    FormatTimeNs(profile.warm_activity_ns), " in kernels\n");
    for (const KernelActivity& kernel : profile.kernels) {
      absl::StrAppend(
          &text, "    kernel ", OneLine(kernel.name), ": ", FormatNumber(kernel.launches),
          " a call, ", FormatTimeNs(kernel.median_ns), ", ", kernel.registers, " registers, ",
          kernel.static_shared_bytes + kernel.dynamic_shared_bytes, " bytes of shared memory\n");
    }
    for (const auto& [name, value] : profile.counters) {
      absl::StrAppend(&text, "    ", OneLine(name), " ", FormatCounter(name, value), "\n");
    }
    if (!profile.stall_reasons.empty()) {
      absl::StrAppend(&text, "    warps wait for ", FormatShares(profile.stall_reasons), "\n");
    }
    for (const std::string& name : profile.missing_counters) {
      absl::StrAppend(&text, "    ", OneLine(name), " is no counter of this device\n");
    }
  }
  return text;
}

absl::StatusOr<ExitCode> RunMeasure(Context& context, const WorkerFlags& flags) {
  Console& console = context.console;
  Connection connection(context, flags.connection, Needs::kWorker);
  KC_ASSIGN_OR_RETURN(Bench bench, MakeBench(context, flags, connection));
  Table table({{"candidate", Table::Align::kLeft, true},
               {"speedup"},
               {"shape"},
               {"median", Table::Align::kRight},
               {"reference", Table::Align::kRight},
               {"device time", Table::Align::kRight}});
  std::string details;
  bool all_good = true;
  const auto measure = [&](const NamedCandidate& named) -> absl::Status {
    KC_ASSIGN_OR_RETURN(const v1::CompileReply compiled, Compile(bench, &named.candidate));
    const auto refuse = [&](const v1::CompileError& error) {
      all_good = false;
      table.AddRow({OneLine(named.name), console.style().Red(StageName(error.stage()))});
      absl::StrAppend(&details, "\n", OneLine(named.name), ":\n", ForTerminal(error.log()));
      console.Line({{"name", named.name}, {"compile_error", JsonOf(error)}});
    };
    if (compiled.has_compile_error()) {
      refuse(compiled.compile_error());
      return absl::OkStatus();
    }
    v1::MeasureRequest request;
    request.set_request_id(RandomId("m_"));
    *request.mutable_candidate() = ToProto(named.candidate);
    request.set_want_hardware_counters(flags.counters);
    request.set_level(Levels().at(flags.level));
    v1::MeasureReply reply;
    KC_RETURN_IF_ERROR(
        Call(*bench.worker, &v1::Worker::Stub::Measure, request, &reply, kMeasureTimeout));
    if (reply.has_compile_error()) {
      // Kernels of a Python candidate compile when they first run.
      refuse(reply.compile_error());
      return absl::OkStatus();
    }
    console.Line({{"name", named.name}, {"measurement", JsonOf(reply.measurement())}});
    KC_ASSIGN_OR_RETURN(const Measurement measurement, FromProto(reply.measurement()));
    const std::string device_time = FormatTimeNs(static_cast<double>(measurement.device_time_ns));
    const auto* ok = std::get_if<MeasuredOk>(&measurement.outcome);
    if (ok == nullptr) {
      const bool passed = std::holds_alternative<Passed>(measurement.outcome);
      all_good = all_good && passed;
      ReportCandidate untimed;
      untimed.measurement = measurement;
      const std::string phrase = FailurePhrase(untimed);
      table.AddRow({OneLine(named.name),
                    passed ? console.style().Green(phrase) : console.style().Red(phrase), "", "",
                    "", device_time});
      absl::StrAppend(&details, "\n", OneLine(named.name), ": ",
                      ForTerminal(MeasurementFeedback(measurement)), "\n");
      return absl::OkStatus();
    }
    if (const std::string profile = FormatDetails(*ok); !profile.empty()) {
      absl::StrAppend(&details, "\n", OneLine(named.name), ":\n", profile);
    }
    const std::string figure = FormatSpeedup(ok->speedup.value);
    bool first = true;
    for (const ShapeTiming& timing : ok->shapes) {
      table.AddRow({first ? OneLine(named.name) : "",
                    absl::StrCat(first && ok->speedup.low > 1 ? console.style().Green(figure)
                                                              : FormatSpeedup(timing.speedup.value),
                                 " ", FormatInterval(first ? ok->speedup : timing.speedup)),
                    OneLine(FormatShape(*ok, timing)), FormatTimeNs(timing.candidate.median_ns),
                    FormatTimeNs(timing.reference.median_ns), first ? device_time : ""});
      first = false;
    }
    if (ok->shapes.empty()) {
      table.AddRow({OneLine(named.name), FormatSpeedup(ok->speedup), "", "", "", device_time});
    }
    return absl::OkStatus();
  };
  const absl::Status status = ForEach(context, bench.candidates, measure);
  if (!table.empty()) console.Out(table.Render(console.style(), console.width()));
  console.Out(details);
  KC_RETURN_IF_ERROR(status);
  return all_good ? ExitCode::kOk : ExitCode::kNegative;
}

std::string BinBars(const std::vector<double>& probabilities) {
  static constexpr std::array kLevels = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string bars;
  for (const double p : probabilities) {
    bars += kLevels[static_cast<size_t>(std::lround(std::clamp(p, 0.0, 1.0) * 8))];
  }
  return bars;
}

// The device of the bench's target; empty if the worker does not report it.
v1::DeviceInfo DeviceOf(const Bench& bench) {
  v1::WorkerDescription description;
  if (Call(*bench.worker, &v1::Worker::Stub::Describe, v1::WorkerDescribeRequest(), &description)
          .ok()) {
    for (const v1::TargetDescription& target : description.targets()) {
      if (target.target() == bench.target) return target.device();
    }
  }
  return {};
}

std::string PromptText(const std::string& name, const v1::ForecastReply& reply) {
  if (!reply.has_prompt()) {
    return absl::StrCat(OneLine(name), ": the backend sends no prompt\n\n");
  }
  return absl::StrCat("==== ", OneLine(name), ", prompt ", OneLine(reply.prompt().version()),
                      "\n---- system\n", ForTerminal(reply.prompt().system()), "\n---- user\n",
                      ForTerminal(reply.prompt().user()), "\n");
}

// A model's part in a forecast, as one word for a column.
std::string ModelWord(const v1::ModelAnswer& answer) {
  switch (answer.outcome()) {
    case v1::MODEL_OUTCOME_NOT_ASKED: return "not asked";
    case v1::MODEL_OUTCOME_USED: return "used";
    case v1::MODEL_OUTCOME_DECLINED: return "declined";
    case v1::MODEL_OUTCOME_UNREADABLE:
      return absl::StrCat("unreadable: ", Truncate(OneLine(answer.fault()), kFaultWidth));
    case v1::MODEL_OUTCOME_UNANSWERED: return "unanswered";
    case v1::MODEL_OUTCOME_BUDGET: return "over budget";
    case v1::MODEL_OUTCOME_LATE: return "late";
    case v1::MODEL_OUTCOME_NOT_WORTH_IT: return "not worth it";
    default: return "none";
  }
}

// A line below the table: why a candidate has no forecast, or none from the model.
void AddNote(const std::string& name, const std::string& what, const std::string& why,
             const Console& console, std::string& notes) {
  const std::string text = Truncate(OneLine(why), kNoteWidth);
  absl::StrAppend(&notes,
                  WrapText(absl::StrCat(OneLine(name), ": ", what, ": ", text), console.width(), 2),
                  "\n");
}

absl::StatusOr<ExitCode> RunForecast(Context& context, const WorkerFlags& flags) {
  Console& console = context.console;
  Connection connection(context, flags.connection, Needs::kWorkerAndForecaster);
  KC_ASSIGN_OR_RETURN(Bench bench, MakeBench(context, flags, connection));
  KC_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, connection.Forecaster());
  const auto forecaster = v1::Forecaster::NewStub(channel);
  v1::PutProblemReply known;
  KC_RETURN_IF_ERROR(Call(*forecaster, &v1::Forecaster::Stub::PutProblem,
                          PutRequest(bench.loaded.problem), &known));
  Compiling::Subjects subjects = {nullptr};
  for (const NamedCandidate& named : bench.candidates) subjects.push_back(&named.candidate);
  std::optional<Compiling> compiling(std::in_place, context, bench, std::move(subjects));
  size_t index = 0;
  KC_ASSIGN_OR_RETURN(const v1::CompileReply reference, compiling->Await(index++));
  if (reference.has_compile_error()) {
    return absl::InvalidArgumentError(absl::StrCat("the reference does not compile here: ",
                                                   OneLine(reference.compile_error().log())));
  }
  Table table({{"candidate", Table::Align::kLeft, true},
               {"expected", Table::Align::kRight},
               {"one deviation"},
               {"bins, slow to fast"},
               {"P(faster)", Table::Align::kRight},
               {"P(fails)", Table::Align::kRight},
               {"rests on"},
               {"labels", Table::Align::kRight},
               {"backend"},
               {"model"}});
  const v1::DeviceInfo device = DeviceOf(bench);
  NotSimulatedList not_simulated;
  // Estimates are relative to the reference.
  const std::string no_reference = WhyNotSimulated(FromProto(reference.success().facts()));
  not_simulated.Add("the reference", no_reference);
  std::string prompts;
  std::string notes;
  bool all_good = true;
  const auto forecast_one = [&](const NamedCandidate& named) -> absl::Status {
    KC_ASSIGN_OR_RETURN(const v1::CompileReply compiled, compiling->Await(index++));
    if (compiled.has_compile_error()) {
      all_good = false;
      table.AddRow(
          {OneLine(named.name), console.style().Red(StageName(compiled.compile_error().stage()))});
      absl::StrAppend(&notes, OneLine(named.name), ":\n",
                      ForTerminal(compiled.compile_error().log()), "\n");
      console.Line({{"name", named.name}, {"compile_error", JsonOf(compiled.compile_error())}});
      return absl::OkStatus();
    }
    v1::ForecastRequest request;
    *request.mutable_device() = device;
    request.set_show_prompt(flags.show_prompt);
    request.set_request_id(RandomId("f_"));
    *request.mutable_candidate() = ToProto(named.candidate);
    *request.mutable_facts() = compiled.success().facts();
    *request.mutable_reference_facts() = reference.success().facts();
    v1::ForecastReply reply;
    KC_RETURN_IF_ERROR(
        Call(*forecaster, &v1::Forecaster::Stub::Forecast, request, &reply, kForecastTimeout));
    if (flags.show_prompt) {
      absl::StrAppend(&prompts, PromptText(named.name, reply));
      if (reply.has_prompt()) {
        console.Line({{"name", named.name},
                      {"prompt",
                       {{"version", reply.prompt().version()},
                        {"system", reply.prompt().system()},
                        {"user", reply.prompt().user()}}}});
      }
    }
    if (reply.has_abstention()) {
      all_good = false;
      console.Line({{"name", named.name}, {"abstention", JsonOf(reply.abstention())}});
      // A model's text goes below the table, since it may be too long for a column.
      const v1::ModelAnswer& model = reply.abstention().model();
      const bool has_model = reply.abstention().has_model();
      const std::string word = has_model ? ModelWord(model) : "none";
      table.AddRow({OneLine(named.name), "-", "none", "", "", "", "", "", "", word});
      AddNote(named.name,
              model.outcome() == v1::MODEL_OUTCOME_DECLINED ? "no forecast: the model declined"
                                                            : "no forecast",
              reply.abstention().reason(), console, notes);
      return absl::OkStatus();
    }
    std::string why = WhyNotSimulated(FromProto(compiled.success().facts()));
    not_simulated.Add(OneLine(named.name), why);
    if (why.empty() && !no_reference.empty()) why = absl::StrCat("the reference: ", no_reference);
    Json line = {{"name", named.name}, {"forecast", JsonOf(reply.forecast())}};
    if (!why.empty()) line["not_simulated"] = why;
    console.Line(line);
    const Forecast forecast = FromProto(reply.forecast());
    const absl::StatusOr<double> win = WinProbability(forecast, 1.0);
    const double low = forecast.expected_log2_speedup - forecast.stddev_log2_speedup;
    const double high = forecast.expected_log2_speedup + forecast.stddev_log2_speedup;
    table.AddRow(
        {OneLine(named.name), FormatSpeedup(std::exp2(forecast.expected_log2_speedup)),
         absl::StrCat(FormatSpeedup(std::exp2(low)), " to ", FormatSpeedup(std::exp2(high))),
         absl::StrCat("[", BinBars(forecast.bin_probabilities), "]"),
         win.ok() ? FormatShare(*win) : "-", FormatShare(forecast.failure_probability),
         absl::StrCat(OneLine(std::string(Name(forecast.basis))),
                      why.empty() ? "" : ", not simulated"),
         FormatCount(forecast.labels_seen.value_or(0)),
         OneLine(absl::StrCat(forecast.backend, " ", forecast.backend_version)),
         reply.forecast().has_model() ? ModelWord(reply.forecast().model()) : "none"});
    if (reply.forecast().has_model() &&
        reply.forecast().model().outcome() != v1::MODEL_OUTCOME_USED &&
        !reply.forecast().model().detail().empty()) {
      AddNote(named.name, absl::StrCat("model ", ModelWord(reply.forecast().model())),
              reply.forecast().model().detail(), console, notes);
    }
    return absl::OkStatus();
  };
  const absl::Status status = ForEach(context, bench.candidates, forecast_one);
  compiling.reset();
  absl::StrAppend(&notes, not_simulated.Render(console.width()));
  console.Out(prompts);
  if (!table.empty()) console.Out(table.Render(console.style(), console.width()));
  if (!notes.empty()) console.Out("\n" + notes);
  KC_RETURN_IF_ERROR(status);
  return all_good ? ExitCode::kOk : ExitCode::kNegative;
}

void AddBenchFlags(CLI::App& app, WorkerFlags& flags, Needs needs) {
  AddProblemArgument(app, flags.problem);
  app.add_option("--candidates", flags.candidates,
                 "A folder of sources, one source, a .jsonl or .jsonl.gz file, or space; as for "
                 "evaluate")
      ->type_name("PATH");
  AddTargetOption(app, flags.target);
  AddConnectionFlags(app, flags.connection, needs);
}

}  // namespace

void AddWorkerCommands(CLI::App& app, Context& context) {
  const auto compile_flags = std::make_shared<WorkerFlags>();
  CLI::App* compile =
      AddCommand(app, context, "compile", "Compile candidates and show their compile facts",
                 [&context, compile_flags] { return RunCompile(context, *compile_flags); });
  AddBenchFlags(*compile, *compile_flags, Needs::kWorker);
  compile->add_flag("--reference", compile_flags->reference, "Compile the problem's reference too");
  compile->add_flag("--facts", compile_flags->facts, "Show every fact");

  const auto measure_flags = std::make_shared<WorkerFlags>();
  CLI::App* measure = AddCommand(
      app, context, "measure", "Verify and time candidates, without forecasts or a record",
      [&context, measure_flags] { return RunMeasure(context, *measure_flags); });
  AddBenchFlags(*measure, *measure_flags, Needs::kWorker);
  AddTaskOptions(*measure, measure_flags->task_options);
  measure
      ->add_option(
          "--level", measure_flags->level,
          "screen: enough to rank; final: to publish; check: check the outputs, time nothing")
      ->check(CLI::IsMember(std::vector<std::string>{"screen", "final", "check"}))
      ->capture_default_str();
  measure->add_flag("--counters", measure_flags->counters,
                    "Also profile correct candidates: kernels and hardware counters");

  const auto forecast_flags = std::make_shared<WorkerFlags>();
  CLI::App* forecast = AddCommand(
      app, context, "forecast", "Forecast the speed of candidates from their compile facts",
      [&context, forecast_flags] { return RunForecast(context, *forecast_flags); });
  AddBenchFlags(*forecast, *forecast_flags, Needs::kWorkerAndForecaster);
  AddForecasterFlags(*forecast, forecast_flags->connection.forecasts, /*with_backend=*/false);
  forecast->add_flag("--show-prompt", forecast_flags->show_prompt, "Also print the model's prompt");
}

}  // namespace kernelcast::cli
