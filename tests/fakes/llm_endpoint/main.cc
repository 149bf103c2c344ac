// The fake endpoint as a program, for end-to-end tests and benches.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "tests/fakes/llm_endpoint/llm_endpoint.h"

int main(int argc, char** argv) {
  using namespace kernelcast::testing;
  CLI::App app("Speaks OpenAI's chat completions on 127.0.0.1 and misbehaves as its options say.");
  FakeEndpointOptions options;
  int port = 0;
  double latency_ms = 0;
  double interval_ms = 0;
  double loris_interval_ms = 20;
  std::vector<std::string> faults;
  std::string answers = "forecast";
  bool no_json_schema = false;
  bool no_tools = false;
  bool no_named_tool_choice = false;
  app.add_option("--port", port, "0: any; the one that is served on is printed");
  app.add_option("--latency-ms", latency_ms, "Until the first token");
  app.add_option("--interval-ms", interval_ms, "Between the pieces of an answer");
  app.add_option("--loris-interval-ms", loris_interval_ms, "Between the bytes of a slow loris");
  app.add_option("--pieces", options.pieces, "Events that an answer's text is cut into");
  app.add_option("--seed", options.seed, "Of faults and answers");
  app.add_option("--fault", faults, "NAME=SHARE, or all=SHARE for all of them evenly; repeatable");
  app.add_option("--retry-after", options.retry_after, "Value of that header");
  app.add_option("--model", options.models, "Models to list; repeatable");
  app.add_flag("--check-model", options.check_model, "404 for any other model");
  app.add_option("--api-key", options.api_key, "Key that requests must bring");
  app.add_option("--answers", answers, "forecast or kernel")
      ->check(CLI::IsMember({"forecast", "kernel"}));
  app.add_flag("--no-json-schema", no_json_schema, "Refuse response_format");
  app.add_flag("--no-tools", no_tools, "Refuse tools");
  app.add_flag("--no-named-tool-choice", no_named_tool_choice,
               "Refuse a tool_choice that names a tool");
  app.add_flag("--repeat-first-answer", options.repeat_first_answer,
               "Answer every request with the first one's answer, as fast as can be");
  CLI11_PARSE(app, argc, argv);

  options.latency_us = static_cast<int64_t>(latency_ms * 1000);
  options.piece_interval_us = static_cast<int64_t>(interval_ms * 1000);
  options.loris_interval_us = static_cast<int64_t>(loris_interval_ms * 1000);
  options.supports_json_schema = !no_json_schema;
  options.supports_tools = !no_tools;
  options.supports_named_tool_choice = !no_named_tool_choice;
  if (answers == "kernel") options.answers = KernelAnswers();
  for (const std::string& text : faults) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const double share =
        equals == std::string::npos ? 1 : std::strtod(text.c_str() + equals + 1, nullptr);
    const std::optional<Fault> fault = ParseFault(name);
    if (name == "all") {
      const std::vector<Fault> all = AllFaults();
      for (const Fault each : all) options.faults[each] = share / static_cast<double>(all.size());
    } else if (fault.has_value()) {
      options.faults[*fault] = share;
    } else {
      std::fprintf(stderr, "'%s' is not a fault; the faults are:", name.c_str());
      for (const Fault each : AllFaults()) {
        std::fprintf(stderr, " %s", std::string(FaultName(each)).c_str());
      }
      std::fprintf(stderr, "\n");
      return 2;
    }
  }

  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  const auto endpoint = FakeLlmEndpoint::Start(options, port);
  if (!endpoint.ok()) {
    std::fprintf(stderr, "%s\n", std::string(endpoint.status().message()).c_str());
    return 1;
  }
  std::printf("%d\n", (*endpoint)->port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  return 0;
}
