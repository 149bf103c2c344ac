// Measures what a language model costs a search, and what it gains it, at equal wall time.
//
//   bench_model_cost [--target cuda] [--only NAME ...] [--models NAME ...] [--seeds 2]
//                    [--measurements 12] [--pace 0.5] [--latencies FILE] [--commit HASH]
//                    [--output FILE]
//
// Each recorded space is searched by the three real services for the time that --measurements
// measurements take at the median of the space: with the embedded forecaster alone, and in a pool
// with each of these models, which a scripted endpoint plays:
//
//   slow       one in three answers is a forecast, drawn at random; latencies of a small model on
//              two cores (--latencies: seconds, one on each line, drawn by the seed)
//   random     each answer is a forecast, drawn at random, after 50 ms
//   inverted   sure, and wrong: fast kernels are slow and slow ones fast, after 50 ms
//   constant   the same forecast for each kernel, after 50 ms
//   declining  declines each question after 1 s
//   prose      writes prose, after 2 s
//   silent     never answers
//   absent     refuses each request with 503
//   good       knows the bin of each kernel, after 1 s
//
// Prints the best kernel that each search measured, relative to the best of the space, and the
// ratio to the search without a model with the same seed. The goal is a mean ratio of at least 0.98
// for every model.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/gzip_file.h"
#include "common/base/status.h"
#include "common/convert/convert.h"
#include "common/convert/proto_json.h"
#include "common/domain/bins.h"
#include "common/domain/problem.h"
#include "common/prompt/prompt_text.h"
#include "tests/bench/search/cluster.h"
#include "tests/fakes/llm_endpoint/llm_endpoint.h"
#include "tests/support/services.h"

namespace kernelcast::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kGoal = 0.98;
constexpr double kPreparationAbove = 2.5;
constexpr int64_t kSecondUs = 1'000'000;

struct Options {
  std::string problems = SourcePath("examples/problems");
  std::string target = std::string(kCudaTargetName);
  std::vector<std::string> only = {"cross_entropy", "layernorm", "matmul_bf16", "transpose"};
  std::vector<std::string> models = {"slow",  "random", "inverted", "constant", "declining",
                                     "prose", "silent", "absent",   "good"};
  int seeds = 2;
  int measurements = 12;
  double pace = 0.5;
  std::string latencies = SourcePath("data/experiments/model-latencies-smollm2.txt");
  std::string commit;
  std::string output;
};

// A recorded space.
struct RecordedPool {
  Problem problem;
  std::string records;                     // file for the worker's --replay
  std::map<std::string, double> speedups;  // by the text of the candidate in a prompt; 0: failed
  double best = 0;
  double median_seconds = 0;  // of a measurement
};

absl::StatusOr<RecordedPool> ReadPool(const Options& options, const std::string& name,
                                      const TemporaryFolder& folder) {
  RecordedPool pool;
  KC_ASSIGN_OR_RETURN(auto files, ReadProblemFolder(absl::StrCat(options.problems, "/", name)));
  KC_ASSIGN_OR_RETURN(pool.problem, ParseProblem(std::move(files)));
  const char* const device = options.target == kCudaTargetName ? "nvidia-h200" : "amd-epyc";
  const std::string path =
      SourcePath(absl::StrCat("data/measured/", device, "/spaces/", name, ".jsonl.gz"));
  std::vector<v1::ExportRecord> records;
  std::vector<int64_t> times;
  KC_RETURN_IF_ERROR(
      ForEachGzipLine(path, [&](int64_t number, const std::string& line) -> absl::Status {
        v1::ExportRecord& record = records.emplace_back();
        if (!ProtoFromJson(line, &record).ok()) {
          return absl::DataLossError(absl::StrCat(path, ":", number, ": cannot be read"));
        }
        KC_ASSIGN_OR_RETURN(const Candidate candidate, FromProto(record.candidate()));
        const v1::Measurement& measured = record.evaluation().measured();
        const double speedup = measured.has_ok() ? measured.ok().speedup().value() : 0;
        pool.speedups[CandidateText(candidate)] = speedup;
        pool.best = std::max(pool.best, speedup);
        if (record.evaluation().has_measured()) {
          times.push_back(ToNanoseconds(measured.device_time()));
        }
        return absl::OkStatus();
      }));
  if (times.empty()) return absl::NotFoundError(absl::StrCat(path, ": nothing is measured"));
  std::sort(times.begin(), times.end());
  const int64_t median = times[times.size() / 2];
  pool.median_seconds = static_cast<double>(median) * 1e-9;
  // The longest times contain the preparation of the problem.
  pool.records = folder.File(name + ".jsonl");
  std::ofstream out(pool.records);
  for (v1::ExportRecord& record : records) {
    if (record.evaluation().has_measured()) {
      v1::Measurement& measured = *record.mutable_evaluation()->mutable_measured();
      if (static_cast<double>(ToNanoseconds(measured.device_time())) >
          kPreparationAbove * static_cast<double>(median)) {
        *measured.mutable_device_time() = DurationToProto(median);
      }
    }
    out << ProtoToJson(record) << "\n";
  }
  return pool;
}

std::string ForecastText(const std::vector<double>& bins) {
  Json answer = Json::object();
  const std::vector<std::string> names = ProbabilityNames();
  for (size_t i = 0; i < names.size(); ++i) answer[names[i]] = bins[i];
  answer["reasoning"] = "as the model would have it";
  return answer.dump();
}

std::string SureOf(int bin) {
  std::vector<double> bins(ProbabilityNames().size(), 0.01);
  bins[static_cast<size_t>(bin - 1)] = 1 - 0.01 * static_cast<double>(bins.size() - 1);
  return ForecastText(bins);
}

std::string Drawn(std::mt19937_64& random) {
  std::vector<double> bins(ProbabilityNames().size());
  double sum = 0;
  for (double& p : bins) {
    p = std::exponential_distribution<double>(1)(random);
    sum += p;
  }
  for (double& p : bins) p /= sum;
  return ForecastText(bins);
}

// The speedup relative to what the question compares the candidate with. Both are in the prompt.
double SpeedupIn(const RecordedPool& pool, const std::string& prompt) {
  const size_t heading = prompt.rfind("# Candidate\n\n");
  if (heading == std::string::npos) return 1;
  const auto known = pool.speedups.find(prompt.substr(heading + 13));
  const double speedup = known == pool.speedups.end() || known->second <= 0 ? 1 : known->second;
  const std::string words = "was measured to be ";
  const size_t anchor = prompt.find(words);
  const double relative_to =
      anchor == std::string::npos ? 1 : std::atof(prompt.c_str() + anchor + words.size());
  return speedup / (relative_to > 0 ? relative_to : 1);
}

// An endpoint that plays the model.
FakeEndpointOptions Play(const std::string& model, const RecordedPool& pool,
                         const std::vector<double>& latencies, int seed) {
  FakeEndpointOptions options;
  options.seed = static_cast<uint64_t>(seed);
  if (model == "silent") options.faults[Fault::kHang] = 1;
  if (model == "absent") options.faults[Fault::kUnavailable] = 1;
  options.answers = [model, &pool, latencies](const nlohmann::json& request, Fault,
                                              std::mt19937_64& random) {
    const std::string prompt = request["messages"].back()["content"].get<std::string>();
    FakeAnswer answer;
    answer.latency_us = kSecondUs / 20;
    if (model == "slow") {
      std::uniform_int_distribution<size_t> draw(0, latencies.size() - 1);
      answer.latency_us = static_cast<int64_t>(latencies[draw(random)] * 1e6);
      answer.content = random() % 3 == 0 ? Drawn(random) : "{\"predicted_bin\": 1.100000000";
    } else if (model == "random") {
      answer.content = Drawn(random);
    } else if (model == "inverted") {
      answer.content = SureOf(BinScheme::Default().Label(1 / SpeedupIn(pool, prompt)).value_or(8));
    } else if (model == "constant") {
      answer.content = SureOf(5);
    } else if (model == "declining") {
      answer.latency_us = kSecondUs;
      answer.content = R"({"defer": true, "reasoning": "only running it can tell"})";
    } else if (model == "good") {
      answer.latency_us = kSecondUs;
      answer.content = SureOf(BinScheme::Default().Label(SpeedupIn(pool, prompt)).value_or(8));
    } else {
      answer.latency_us = 2 * kSecondUs;
      answer.content = "This kernel has a loop over the rows, and should be fast.";
    }
    return answer;
  };
  return options;
}

struct Searched {
  double found = 0;  // relative to the best of the space
  uint64_t measured = 0;
  v1::ModelUse use;
};

absl::StatusOr<Searched> Search(const Options& options, const RecordedPool& pool,
                                const std::string& model, const std::vector<double>& latencies,
                                int seed) {
  ClusterOptions cluster_options;
  cluster_options.worker_arguments = {"--replay", pool.records, "--replay-pace",
                                      absl::StrCat(options.pace)};
  std::unique_ptr<FakeLlmEndpoint> endpoint;
  if (!model.empty()) {
    KC_ASSIGN_OR_RETURN(endpoint, FakeLlmEndpoint::Start(Play(model, pool, latencies, seed)));
    cluster_options.forecaster_arguments = {"--backend",     "pool",        "--llm",
                                            endpoint->url(), "--llm-model", "fake"};
    cluster_options.orchestrator_arguments = {"--forecast-timeout-seconds", "300"};
  }
  Cluster cluster;
  KC_RETURN_IF_ERROR(cluster.Start(cluster_options));
  KC_RETURN_IF_ERROR(cluster.PutProblem(pool.problem));
  v1::SearchSpec spec;
  spec.set_problem_id(pool.problem.problem_id);
  spec.set_target(options.target);
  spec.set_generator(v1::GENERATOR_TEMPLATE);
  spec.set_seed(static_cast<uint64_t>(seed));
  *spec.mutable_budget()->mutable_max_wall_time() = DurationToProto(
      static_cast<int64_t>(1e9 * options.measurements * options.pace * pool.median_seconds));
  KC_ASSIGN_OR_RETURN(const v1::Search search, cluster.Run("cost", spec));
  if (search.status() == v1::SEARCH_STATUS_FAILED) {
    return absl::InternalError(absl::StrCat("the search failed: ", search.end_reason()));
  }
  Searched searched;
  KC_RETURN_IF_ERROR(cluster.Export(
      "cost", /*include_sources=*/false, [&](const v1::ExportRecord& record) -> absl::Status {
        if (!record.evaluation().has_measured()) return absl::OkStatus();
        ++searched.measured;
        searched.found = std::max(
            searched.found, record.evaluation().measured().ok().speedup().value() / pool.best);
        return absl::OkStatus();
      }));
  searched.use = search.counts().model_use();
  return searched;
}

struct Totals {
  double found = 0;
  double ratio = 0;
  double least_ratio = 1e9;
  double measured = 0;
  double asked = 0;
  double used = 0;
  double late = 0;
  double not_worth_it = 0;
  int searches = 0;

  void Add(const Searched& searched, const Searched& alone) {
    const double one = alone.found > 0 ? searched.found / alone.found : 1;
    found += searched.found;
    ratio += one;
    least_ratio = std::min(least_ratio, one);
    measured += static_cast<double>(searched.measured);
    asked += static_cast<double>(searched.use.asked());
    used += static_cast<double>(searched.use.used());
    late += static_cast<double>(searched.use.late());
    not_worth_it += static_cast<double>(searched.use.not_worth_it());
    ++searches;
  }
};

absl::StatusOr<std::vector<double>> ReadLatencies(const std::string& path) {
  std::ifstream file(path);
  std::vector<double> latencies;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.front() != '#') latencies.push_back(std::atof(line.c_str()));
  }
  if (latencies.empty()) return absl::NotFoundError(absl::StrCat(path, ": no latencies"));
  return latencies;
}

absl::Status Run(const Options& options) {
  KC_ASSIGN_OR_RETURN(const std::vector<double> latencies, ReadLatencies(options.latencies));
  const TemporaryFolder folder("model-cost");
  std::map<std::string, Totals> totals;  // "": without a model
  for (const std::string& name : options.only) {
    KC_ASSIGN_OR_RETURN(const RecordedPool pool, ReadPool(options, name, folder));
    for (int seed = 1; seed <= options.seeds; ++seed) {
      KC_ASSIGN_OR_RETURN(const Searched alone, Search(options, pool, "", latencies, seed));
      totals[""].Add(alone, alone);
      std::fprintf(stderr, "%s, seed %d: alone %.4f, %llu measured\n", name.c_str(), seed,
                   alone.found, static_cast<unsigned long long>(alone.measured));
      for (const std::string& model : options.models) {
        KC_ASSIGN_OR_RETURN(const Searched searched, Search(options, pool, model, latencies, seed));
        totals[model].Add(searched, alone);
        std::fprintf(stderr, "%s, seed %d: %s %.4f, %llu measured\n", name.c_str(), seed,
                     model.c_str(), searched.found,
                     static_cast<unsigned long long>(searched.measured));
      }
    }
  }
  std::printf(
      "\n| model | searches | found | ratio to the search without a model | least | measured | "
      "answers used | late | not asked |\n|---|---|---|---|---|---|---|---|---|\n");
  Json models = Json::object();
  bool reached = true;
  for (const auto& [model, sum] : totals) {
    const double count = sum.searches;
    reached = reached && sum.ratio / count >= kGoal;
    std::printf("| %s | %d | %.4f | %.4f | %.4f | %.1f | %.1f | %.1f | %.1f |\n",
                model.empty() ? "none" : model.c_str(), sum.searches, sum.found / count,
                sum.ratio / count, sum.least_ratio, sum.measured / count, sum.used / count,
                sum.late / count, sum.not_worth_it / count);
    models[model.empty() ? "none" : model] = {{"searches", sum.searches},
                                              {"found", sum.found / count},
                                              {"ratio", sum.ratio / count},
                                              {"least_ratio", sum.least_ratio},
                                              {"measured", sum.measured / count},
                                              {"asked", sum.asked / count},
                                              {"used", sum.used / count},
                                              {"late", sum.late / count},
                                              {"not_worth_it", sum.not_worth_it / count}};
  }
  std::printf("goal: a mean ratio of %.2f for every model: %s\n", kGoal,
              reached ? "reached" : "missed");
  if (options.output.empty()) return absl::OkStatus();
  char date[32];
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::ofstream out(options.output);
  out << Json{{"benchmark", "bench_model_cost"},
              {"target", options.target},
              {"problems", options.only},
              {"seeds", options.seeds},
              {"measurements", options.measurements},
              {"pace", options.pace},
              {"date", date},
              {"commit", options.commit},
              {"models", std::move(models)}}
             .dump(1)
      << "\n";
  out.close();
  return out ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat(options.output, ": cannot be written"));
}

int Main(int argc, char** argv) {
  CLI::App app{"What a language model costs a search, and what it gains it, at equal wall time"};
  Options options;
  app.add_option("--problems", options.problems, "Folder of problems")->capture_default_str();
  app.add_option("--target", options.target, "cuda or cpu")
      ->capture_default_str()
      ->check(CLI::IsMember({"cuda", "cpu"}));
  app.add_option("--only", options.only, "Names of problems")->capture_default_str();
  app.add_option("--models", options.models, "Models to play")->capture_default_str();
  app.add_option("--seeds", options.seeds, "Searches of each problem with each model")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--measurements", options.measurements,
                 "Wall time of a search, in measurements at the median of the space")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  app.add_option("--pace", options.pace, "Time of a replayed measurement, relative to the device")
      ->capture_default_str();
  app.add_option("--latencies", options.latencies, "File of seconds, for the model 'slow'")
      ->capture_default_str();
  app.add_option("--commit", options.commit, "Commit to note in the record");
  app.add_option("--output", options.output, "File for the record, as JSON");
  CLI11_PARSE(app, argc, argv);
  if (const absl::Status status = Run(options); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.ToString()).c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) {
  try {
    return kernelcast::testing::Main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
