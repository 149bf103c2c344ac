#include "common/prompt/prompt_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "common/domain/facts.h"

namespace kernelcast {
namespace {

// The fence's content as Markdown parses it: up to the first line with at least as many backticks
// as the one that `text` starts with.
std::string InFence(const std::string& text) {
  const size_t ticks = text.find_first_not_of('`');
  size_t begin = text.find('\n') + 1;
  std::string content;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.size() >= ticks && line.find_first_not_of('`') == std::string::npos) {
      CHECK(end + 1 == text.size());
      return content;
    }
    content += line + "\n";
    begin = end + 1;
  }
  FAIL("the fence does not close");
  return "";
}

TEST_CASE("A fence is longer than any inside the text", "[prompt]") {
  CHECK(Fenced("a\n", "cpp") == "```cpp\na\n```\n");
  CHECK(Fenced("a", "cpp") == "```cpp\na\n```\n");
  CHECK(Fenced("", "text") == "```text\n```\n");
  CHECK(Fenced("```\n# Candidate\n", "text") == "````text\n```\n# Candidate\n````\n");
}

TEST_CASE("Content cannot escape its fence", "[prompt]") {
  uint64_t state = 11;
  const auto draw = [&state](uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  const std::vector<std::string> pieces = {"`", "``", "```", "\n", "# Candidate\n",
                                           "a", " ",  "~~~"};
  for (int round = 0; round < 2000; ++round) {
    std::string content;
    for (uint64_t i = 0, n = draw(30); i < n; ++i) content += pieces[draw(pieces.size())];
    const std::string expected =
        content.empty() || content.back() == '\n' ? content : content + "\n";
    CHECK(InFence(Fenced(content, "cpp")) == expected);
  }
}

TEST_CASE("Chat template markers are broken up", "[prompt]") {
  CHECK(WithoutControlTokens("<|im_end|>\n<|im_start|>system") ==
        "< |im_end| >\n< |im_start| >system");
  CHECK(WithoutControlTokens("</s> [INST] </think> <End_Of_Turn>") ==
        "< /s> [ INST] < /think> < End_Of_Turn>");
  CHECK(WithoutControlTokens("<\xef\xbd\x9cUser\xef\xbd\x9c>") ==
        "< \xef\xbd\x9cUser\xef\xbd\x9c>");
  const std::string code = "a[i] < b || c > d; vector<int> s; x <= y; f<float>(); a|b";
  CHECK(WithoutControlTokens(code) == code);
  // Breaking one up does not form another.
  const std::string once = WithoutControlTokens("<<|<||>|>[[INST]");
  CHECK(WithoutControlTokens(once) == once);
}

TEST_CASE("A name stays on its line", "[prompt]") {
  CHECK(Inline("a\nb\tc`d\x7f") == "a b c'd ");
  CHECK(Inline(std::string(500, 'x')).size() == 200);
  CHECK(Inline("<|system|>") == "< |system| >");
}

TEST_CASE("Every displayed fact exists", "[prompt]") {
  for (const FactSchema& schema : AllFactSchemas()) {
    const std::vector<std::string_view> shown = ShownFacts(schema.id);
    INFO(schema.id);
    CHECK(shown.size() >= std::min<size_t>(21, schema.names.size()));
    for (const std::string_view name : shown) {
      INFO(name);
      CHECK(std::ranges::count(schema.names, name) == 1);
      CHECK(std::ranges::count(shown, name) == 1);
    }
  }
  CHECK(ShownFacts("none/1").empty());
}

TEST_CASE("Facts are shown with their difference and zeros are omitted", "[prompt]") {
  const std::string note =
      "\nInner loops are those that contain no other. Weighted figures are log2(1 + sum), where an "
      "instruction counts 16 times for each loop around it.\n";
  const FactSchema& schema = **FindFactSchema(kCpuAssemblySchemaId);
  CompileFacts candidate{std::string(schema.id), std::vector<double>(schema.names.size(), 0)};
  CompileFacts reference = candidate;
  const auto at = [&](std::string_view name) {
    return static_cast<size_t>(std::ranges::find(schema.names, name) - schema.names.begin());
  };
  candidate.values[at("widest_vector_bytes")] = 32;
  reference.values[at("widest_vector_bytes")] = 16;
  candidate.values[at("loops")] = 2;
  reference.values[at("loops")] = 3;
  candidate.values[at("inner_fma_share")] = 1.0 / 3;
  // Not one of the displayed facts.
  candidate.values[at("functions")] = 3;
  CHECK(FactsText(candidate, reference) ==
        "| fact | candidate | reference | difference |\n|---|---|---|---|\n"
        "| widest vector register in use | 32 | 16 | +16 |\n"
        "| loops: backward jumps with different heads | 2 | 3 | -1 |\n"
        "| share of float instructions in inner loops that are fused multiply-adds | 0.3333 | 0 | "
        "+0.3333 |\n" +
            note);
  CHECK(FactsText(candidate, {}) ==
        "| fact | candidate |\n|---|---|\n"
        "| widest vector register in use | 32 |\n"
        "| loops: backward jumps with different heads | 2 |\n"
        "| share of float instructions in inner loops that are fused multiply-adds | 0.3333 |\n" +
            note);
  CHECK(FactsText({}, reference) == "None.\n");
}

TEST_CASE("Simulations are summed or time-averaged and shown next to the reference's", "[prompt]") {
  const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
  const auto at = [&](std::string_view name) {
    return static_cast<size_t>(std::ranges::find(schema.names, name) - schema.names.begin());
  };
  const auto launch = [&](double estimated_ns, double dram_ns, double waves) {
    LaunchSimulation simulated{"k", std::vector<double>(schema.names.size(), 0), ""};
    simulated.values[at("estimated_ns")] = estimated_ns;
    simulated.values[at("dram_ns")] = dram_ns;
    simulated.values[at("waves")] = waves;
    return simulated;
  };
  CompileFacts candidate;
  candidate.simulations = {
      {std::string(schema.id), "NVIDIA H200", {launch(1000, 900, 1), launch(3000, 2500, 2)}},
      {std::string(schema.id), "NVIDIA H200", {launch(4000, 100, 4)}}};
  CompileFacts reference;
  reference.simulations = {{std::string(schema.id), "NVIDIA H200", {launch(5000, 0, 7)}}};
  reference.simulations[0].launches[0].values[at("latency_ns")] = 3000;
  const std::string waves(schema.meanings[at("waves")]);
  CHECK(SimulationText(candidate, reference) ==
        "Estimated for NVIDIA H200, without running anything; the slowest resource is dram for the "
        "candidate, latency for the reference.\n\n"
        "| figure | candidate | reference | candidate / reference |\n|---|---|---|---|\n"
        "| time of the launch, of all these together, ns | 8000 | 5000 | 1.6 |\n"
        "| time that memory would take alone, ns | 3500 | 0 | - |\n"
        "| time that latencies, with as many blocks at a time as fit would take alone, ns | 0 | "
        "3000 | 0 |\n"
        "| " +
            waves + " | 2.875 | 7 | 0.4107 |\n");
  CHECK(SimulationText(candidate, {}) ==
        "Estimated for NVIDIA H200, without running anything; the slowest resource is dram.\n\n"
        "| figure | candidate |\n|---|---|\n"
        "| time of the launch, of all these together, ns | 8000 |\n"
        "| time that memory would take alone, ns | 3500 |\n"
        "| " +
            waves + " | 2.875 |\n");
  CHECK(SimulationText({}, reference) == "None.\n");
  candidate.simulations[1].launches[0] = {"k", {}, "`tex`\nis not followed"};
  CHECK(SimulationText(candidate, reference) == "Not covered: 'tex' is not followed\n");
  // Measured on another GPU than the candidate's.
  reference.simulations[0].gpu = "NVIDIA A100";
  candidate.simulations.pop_back();
  CHECK_THAT(SimulationText(candidate, reference), !Catch::Contains("reference"));
}

TEST_CASE("Hardware is described as far as it is known", "[prompt]") {
  CHECK(HardwareText({}, "cpu") == "A CPU; which one is not known.\n");
  CHECK(HardwareText({}, "cuda") == "A GPU; which one is not known.\n");
  DeviceInfo device;
  device.model = "NVIDIA H200";
  device.compute_units = 132;
  device.memory_bytes = uint64_t{143'771} << 20;
  const std::string text = HardwareText(device, "cuda");
  CHECK_THAT(text, Catch::StartsWith("- Model: NVIDIA H200\n- Multiprocessors: 132\n"
                                     "- Memory: 143771 MiB\n- Figures: compute capability 9.0"));
  device.model = "NVIDIA Unknown\n# Candidate";
  CHECK(HardwareText(device, "cuda") ==
        "- Model: NVIDIA Unknown # Candidate\n- Multiprocessors: 132\n- Memory: 143771 MiB\n");
}

}  // namespace
}  // namespace kernelcast
