#include "common/prompt/prompt_text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/utf8.h"
#include "common/domain/facts.h"
#include "common/domain/launch_geometry.h"
#include "common/domain/problem.h"
#include "common/domain/text.h"

namespace kernelcast {
namespace {

// Control tokens of chat templates and tokenizers, in lower case for comparison.
constexpr std::string_view kControlTokens[] = {
    "<|",     "|>",      "<\xef\xbd\x9c", "<s>",      "</s>",    "<start_of_turn>", "<end_of_turn>",
    "[inst]", "[/inst]", "<<sys>>",       "<</sys>>", "<think>", "</think>",        "<unk>",
    "<pad>",  "<bos>",   "<eos>",
};

// Facts whose meaning depends on the preceding fact in the schema's table.
struct FactWords {
  std::string_view name;
  std::string_view words;
};
constexpr FactWords kFactWords[] = {
    {"inner_packed_share", "share of float instructions in inner loops that are packed"},
    {"inner_fma_share", "share of float instructions in inner loops that are fused multiply-adds"},
    {"inner_flops_per_byte", "float operations per byte loaded and stored in inner loops"},
    {"inner_flops_per_instruction", "float operations per instruction in inner loops"},
    {"launch_dynamic_shared_bytes", "dynamic shared memory of the first launch, bytes"},
    {"launch_block_threads", "threads per block of the first launch"},
    {"launch_blocks_per_sm", "blocks of the first launch that fit on a multiprocessor"},
    {"launch_occupancy", "share of a multiprocessor's warps that those blocks fill"},
    {"weighted_special", "float divisions and special functions, weighted by loop depth"},
    {"weighted_flops", "float operations, weighted by loop depth"},
};
constexpr std::string_view kWeightedNote =
    "\nInner loops are those that contain no other. Weighted figures are log2(1 + sum), where an "
    "instruction counts 16 times for each loop around it.\n";

struct ShownSimulation {
  std::string_view name;
  const char* unit;
  bool sum;  // otherwise averaged
};

// Times of resources first, then their causes.
constexpr ShownSimulation kShownSimulations[] = {
    {"estimated_ns", ", ns", true},
    {"dram_ns", ", ns", true},
    {"l2_ns", ", ns", true},
    {"load_store_ns", ", ns", true},
    {"issue_ns", ", ns", true},
    {"float32_ns", ", ns", true},
    {"integer_ns", ", ns", true},
    {"special_ns", ", ns", true},
    {"tensor_ns", ", ns", true},
    {"atomics_ns", ", ns", true},
    {"latency_ns", ", ns", true},
    {"waves", "", false},
    {"resident_blocks", "", false},
    {"block_warps", "", false},
    {"instructions", "", true},
    {"active_lane_share", "", false},
    {"divergent_share", "", false},
    {"barriers", "", true},
    {"shuffles", "", true},
    {"matrix_products", "", true},
    {"load_efficiency", "", false},
    {"store_efficiency", "", false},
    {"shared_load_conflicts", "", false},
    {"shared_store_conflicts", "", false},
    {"local_sectors", "", true},
    {"global_atomics", "", true},
    {"shared_atomics", "", true},
    {"dram_bytes", "", true},
    {"l2_bytes", "", true},
    {"l2_reuse", "", false},
    {"loads_in_flight", "", false},
    {"bytes_in_flight", "", false},
};

size_t SimulationIndex(std::string_view name) {
  const std::span<const std::string_view> names =
      (*FindSimulationSchema(kCudaSimulationSchemaId))->names;
  return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
}

struct SimulationSummary {
  std::string gpu;
  std::vector<double> values;  // values of kShownSimulations, in that order; or empty
  std::string not_covered;
};

SimulationSummary Summarise(const CompileFacts& facts) {
  SimulationSummary summary;
  const size_t size = (*FindSimulationSchema(kCudaSimulationSchemaId))->names.size();
  const size_t time = SimulationIndex("estimated_ns");
  std::vector<double> values(size, 0);
  for (const ShapeSimulation& shape : facts.simulations) {
    if (shape.schema != kCudaSimulationSchemaId) return summary;
    for (const LaunchSimulation& launch : shape.launches) {
      if (launch.values.size() != size) {
        summary.not_covered = launch.not_covered;
        return summary;
      }
      for (const ShownSimulation& shown : kShownSimulations) {
        const size_t index = SimulationIndex(shown.name);
        values[index] += (shown.sum ? 1 : launch.values[time]) * launch.values[index];
      }
    }
  }
  if (!(values[time] > 0)) return summary;
  for (const ShownSimulation& shown : kShownSimulations) {
    if (!shown.sum) values[SimulationIndex(shown.name)] /= values[time];
  }
  summary.gpu = facts.simulations.front().gpu;
  summary.values = std::move(values);
  return summary;
}

// The slowest of the resources whose times are shown.
std::string_view Slowest(const SimulationSummary& summary) {
  std::string_view slowest;
  double most = -1;
  for (const ShownSimulation& shown : kShownSimulations) {
    const double ns = summary.values[SimulationIndex(shown.name)];
    if (!shown.name.ends_with("_ns") || shown.name == "estimated_ns" || ns <= most) continue;
    most = ns;
    slowest = shown.name.substr(0, shown.name.size() - 3);
  }
  return slowest;
}

constexpr std::string_view kShownCpuFacts[] = {
    "text_bytes",
    "widest_vector_bytes",
    "vector_registers",
    "loops",
    "loop_depth",
    "packed_float_fma",
    "packed_float_add",
    "packed_float_multiply",
    "packed_float_divide_sqrt",
    "scalar_float_fma",
    "scalar_float_add",
    "scalar_float_multiply",
    "scalar_float_divide_sqrt",
    "reciprocal_estimates",
    "gathers",
    "scatters",
    "shuffles",
    "nontemporal_stores",
    "prefetches",
    "stack_accesses",
    "calls_math",
    "calls_memory",
    "calls_allocation",
    "inner_instructions",
    "inner_packed_share",
    "inner_fma_share",
    "inner_vector_bytes",
    "inner_accumulators",
    "inner_flops_per_byte",
    "inner_flops_per_instruction",
    "inner_stack_accesses",
    "inner_calls",
    "weighted_instructions",
    "weighted_flops",
    "weighted_bytes",
};

constexpr std::string_view kShownCudaFacts[] = {
    "kernels",
    "launches",
    "registers",
    "spill_load_bytes",
    "spill_store_bytes",
    "stack_bytes",
    "static_shared_bytes",
    "launch_dynamic_shared_bytes",
    "launch_block_threads",
    "launch_blocks_per_sm",
    "launch_occupancy",
    "instructions",
    "inner_instructions",
    "loops",
    "loop_depth",
    "branches",
    "fp32_fma",
    "half_packed",
    "fp64",
    "float_divide",
    "special_functions",
    "integer_divide",
    "barriers",
    "mbarriers",
    "warp_shuffles",
    "atomics_global",
    "atomics_shared",
    "load_global_4",
    "load_global_8",
    "load_global_16",
    "load_global_readonly",
    "store_global_4",
    "store_global_8",
    "store_global_16",
    "load_shared",
    "store_shared",
    "load_local",
    "store_local",
    "cp_async",
    "bulk_copies",
    "mma_sync",
    "wgmma",
    "matrix_loads",
    "weighted_instructions",
    "weighted_flops",
    "weighted_special",
    "weighted_global_bytes",
    "weighted_shared_bytes",
    "weighted_matrix",
    "weighted_barriers",
};

// Published data. Bandwidth is that of the memory; flops are dense, at boost clock.
struct KnownGpu {
  std::string_view model;  // as the driver names it
  std::string_view figures;
};
constexpr KnownGpu kKnownGpus[] = {
    {"NVIDIA A100-SXM4-40GB",
     "compute capability 8.0, 108 multiprocessors of at most 2048 threads, 164 KiB shared memory "
     "each, 40 MB L2, 1.56 TB/s, 19.5 TFLOP/s float32, 312 TFLOP/s bfloat16 on tensor cores"},
    {"NVIDIA A100-SXM4-80GB",
     "compute capability 8.0, 108 multiprocessors of at most 2048 threads, 164 KiB shared memory "
     "each, 40 MB L2, 2.04 TB/s, 19.5 TFLOP/s float32, 312 TFLOP/s bfloat16 on tensor cores"},
    {"NVIDIA L40S",
     "compute capability 8.9, 142 multiprocessors of at most 1536 threads, 100 KiB shared memory "
     "each, 96 MB L2, 0.86 TB/s, 91.6 TFLOP/s float32, 362 TFLOP/s bfloat16 on tensor cores"},
    {"NVIDIA H100 80GB HBM3",
     "compute capability 9.0, 132 multiprocessors of at most 2048 threads, 228 KiB shared memory "
     "each, 50 MB L2, 3.35 TB/s, 66.9 TFLOP/s float32, 989 TFLOP/s bfloat16 on tensor cores"},
    {"NVIDIA H200",
     "compute capability 9.0, 132 multiprocessors of at most 2048 threads, 228 KiB shared memory "
     "each, 50 MB L2, 4.8 TB/s, 66.9 TFLOP/s float32, 989 TFLOP/s bfloat16 on tensor cores"},
};

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool StartsWithToken(std::string_view text, std::string_view token) {
  if (text.size() < token.size()) return false;
  for (size_t i = 0; i < token.size(); ++i) {
    if (Lower(text[i]) != token[i]) return false;
  }
  return true;
}

std::string Shape(const TensorSpec& tensor) {
  std::vector<std::string> sizes;
  for (const Expression& size : tensor.shape) sizes.push_back(Inline(size.text()));
  return absl::StrCat("[", absl::StrJoin(sizes, ", "), "]");
}

std::string ToleranceText(const TensorSpec& output) {
  const auto text = [](const std::optional<Expression>& expression, double constant) {
    return expression ? Inline(expression->text()) : NumberText(constant);
  };
  const ToleranceExpressions& expressions = output.tolerance_expressions;
  return absl::StrCat("atol ", text(expressions.atol, output.tolerance.atol), ", rtol ",
                      text(expressions.rtol, output.tolerance.rtol), ", normwise ",
                      text(expressions.normwise, output.tolerance.normwise));
}

std::string Evaluated(const std::optional<Expression>& expression, const AxisValues& shape) {
  if (!expression.has_value()) return "";
  Variables variables;
  for (const auto& [name, value] : shape) variables.emplace(name, static_cast<double>(value));
  const absl::StatusOr<double> value = expression->Evaluate(variables);
  return value.ok() ? NumberText(*value, 4) : "";
}

std::string BuildText(const std::vector<std::string>& flags, const std::vector<Tunable>& tunables,
                      const std::vector<Launch>& launches, const std::string& workspace_bytes) {
  std::string text;
  if (!flags.empty()) absl::StrAppend(&text, "- Compiler flags: ", InlineList(flags, " "), "\n");
  if (!tunables.empty()) absl::StrAppend(&text, "- Tunables: ", TunableText(tunables), "\n");
  for (const Launch& launch : launches) {
    absl::StrAppend(&text, "- Launch of ", Inline(launch.kernel), ": grid (",
                    InlineList(launch.grid, ", "), "), block (", InlineList(launch.block, ", "),
                    ")");
    if (!launch.cluster.empty()) {
      absl::StrAppend(&text, ", cluster (", InlineList(launch.cluster, ", "), ")");
    }
    if (!launch.shared_memory_bytes.empty()) {
      absl::StrAppend(&text, ", dynamic shared memory ", Inline(launch.shared_memory_bytes),
                      " bytes");
    }
    absl::StrAppend(&text, ", arguments (", InlineList(launch.arguments, ", "), ")\n");
  }
  if (!workspace_bytes.empty()) {
    absl::StrAppend(&text, "- Scratch memory: ", Inline(workspace_bytes), " bytes\n");
  }
  return text;
}

}  // namespace

std::string AxisText(const AxisValues& shape) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : shape) parts.push_back(absl::StrCat(Inline(name), "=", value));
  return absl::StrJoin(parts, ", ");
}

std::string TunableText(const std::vector<Tunable>& tunables) {
  std::vector<std::string> parts;
  parts.reserve(tunables.size());
  for (const Tunable& tunable : tunables) {
    parts.push_back(absl::StrCat(Inline(tunable.name), "=", Inline(tunable.value)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string InlineList(const std::vector<std::string>& texts, const char* separator) {
  std::vector<std::string> parts;
  parts.reserve(texts.size());
  for (const std::string& text : texts) parts.push_back(Inline(text));
  return absl::StrJoin(parts, separator);
}

std::string WithoutControlTokens(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    const auto* token = std::ranges::find_if(
        kControlTokens, [&](std::string_view known) { return StartsWithToken(rest, known); });
    result += text[i++];
    if (token != std::end(kControlTokens)) result += ' ';
  }
  return result;
}

std::string Fenced(std::string_view content, std::string_view language) {
  const std::string text = WithoutControlTokens(SanitizeUtf8(content));
  size_t longest = 2;
  size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  const bool ends = text.empty() || text.back() == '\n';
  return absl::StrCat(fence, std::string(language), "\n", text, ends ? "" : "\n", fence, "\n");
}

std::string Inline(std::string_view text, size_t max_bytes) {
  std::string line = SanitizeUtf8(TruncateUtf8(text, max_bytes));
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    if (c == '`') c = '\'';
  }
  return WithoutControlTokens(line);
}

std::string HardwareText(const DeviceInfo& device, std::string_view target) {
  if (device.model.empty()) {
    return target == kCpuTargetName ? "A CPU; which one is not known.\n"
                                    : "A GPU; which one is not known.\n";
  }
  std::string text = absl::StrCat("- Model: ", Inline(device.model), "\n");
  if (device.compute_units > 0) {
    absl::StrAppend(&text, target == kCpuTargetName ? "- Cores in use: " : "- Multiprocessors: ",
                    device.compute_units, "\n");
  }
  if (device.memory_bytes > 0) {
    absl::StrAppend(&text, "- Memory: ", device.memory_bytes >> 20, " MiB\n");
  }
  for (const KnownGpu& gpu : kKnownGpus) {
    if (gpu.model == device.model)
      absl::StrAppend(&text, "- Figures: ", std::string(gpu.figures), "\n");
  }
  return text;
}

std::string TaskText(const Problem& problem, std::string_view target) {
  std::string text =
      absl::StrCat("- Operation: ", Inline(problem.title), " (", Inline(problem.family), ")\n");
  std::vector<std::string> axes;
  for (const Axis& axis : problem.axes) {
    // int64, the default type of an axis argument, is covered by the target's rules.
    axes.push_back(axis.type == ScalarType::kInt64
                       ? Inline(axis.name)
                       : absl::StrCat(Inline(axis.name), " (", std::string(Name(axis.type)), ")"));
  }
  if (!axes.empty()) absl::StrAppend(&text, "- Axes: ", absl::StrJoin(axes, ", "), "\n");
  for (const TensorSpec& input : problem.inputs) {
    absl::StrAppend(&text, "- Input ", Inline(input.name), ": ", std::string(Name(input.dtype)),
                    " ", Shape(input), "\n");
  }
  for (const TensorSpec& output : problem.outputs) {
    absl::StrAppend(&text, "- Output ", Inline(output.name), ": ", std::string(Name(output.dtype)),
                    " ", Shape(output), ", tolerance ", ToleranceText(output), "\n");
  }
  const auto found = problem.targets.find(target);
  const bool own = found != problem.targets.end();
  const std::vector<AxisValues>& shapes = own ? found->second.bench_shapes : problem.bench_shapes;
  const std::vector<double>& declared = own ? found->second.bench_weights : problem.bench_weights;
  const std::vector<double> weights = NormalizedWeights(declared, shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const AxisValues& shape = shapes[i];
    if (shape.empty()) continue;
    absl::StrAppend(&text, "- Timed at: ", AxisText(shape));
    const std::string flops = Evaluated(problem.flops, shape);
    const std::string bytes = Evaluated(problem.bytes, shape);
    if (!flops.empty()) absl::StrAppend(&text, "; ", flops, " floating-point operations");
    if (!bytes.empty()) absl::StrAppend(&text, "; at least ", bytes, " bytes moved");
    if (!declared.empty()) absl::StrAppend(&text, "; weight ", NumberText(weights[i], 3));
    text += '\n';
  }
  if (shapes.size() > 1) {
    absl::StrAppend(&text, "- The speedup is the ", declared.empty() ? "" : "weighted ",
                    "geometric mean over these shapes.\n");
  }
  if (!problem.description.empty())
    absl::StrAppend(&text, "\n", Fenced(problem.description, "text"));
  return text;
}

std::string ReferenceText(const Problem& problem, std::string_view target) {
  const absl::StatusOr<Candidate> reference = ReferenceCandidate(problem, target);
  if (!reference.ok()) return "Not known.\n";
  std::string text = BuildText(reference->flags, reference->tunables, reference->launches,
                               reference->workspace_bytes);
  if (!text.empty()) text += '\n';
  return text + Fenced(reference->source, KindInfoOf(reference->kind).fence);
}

std::vector<std::string_view> ShownFacts(std::string_view schema_id) {
  if (schema_id == kCpuAssemblySchemaId) {
    return {std::begin(kShownCpuFacts), std::end(kShownCpuFacts)};
  }
  if (schema_id == kPythonSourceSchemaId) {
    const std::span<const std::string_view> names = (*FindFactSchema(schema_id))->names;
    return {names.begin(), names.end()};
  }
  if (schema_id == kCudaPtxSchemaId) {
    return {std::begin(kShownCudaFacts), std::end(kShownCudaFacts)};
  }
  if (schema_id == kCudaSimulationSchemaId) {
    std::vector<std::string_view> names;
    for (const ShownSimulation& shown : kShownSimulations) names.push_back(shown.name);
    return names;
  }
  return {};
}

std::string FactsText(const CompileFacts& candidate, const CompileFacts& reference) {
  const absl::StatusOr<const FactSchema*> schema = FindFactSchema(candidate.schema);
  if (!schema.ok() || candidate.values.size() != (*schema)->names.size()) return "None.\n";
  const bool both =
      reference.schema == candidate.schema && reference.values.size() == candidate.values.size();
  std::string text = both ? "| fact | candidate | reference | difference |\n|---|---|---|---|\n"
                          : "| fact | candidate |\n|---|---|\n";
  const auto number = [](double value) { return NumberText(value, 4); };
  for (const std::string_view name : ShownFacts(candidate.schema)) {
    const auto names = (*schema)->names;
    const auto index = static_cast<size_t>(std::ranges::find(names, name) - names.begin());
    if (index == names.size()) continue;
    const double value = candidate.values[index];
    const double other = both ? reference.values[index] : 0;
    if (value == 0 && other == 0) continue;
    const auto* words = std::ranges::find(kFactWords, name, &FactWords::name);
    const std::string_view meaning =
        words != std::end(kFactWords) ? words->words : (*schema)->meanings[index];
    absl::StrAppend(&text, "| ", std::string(meaning), " | ", number(value));
    if (both) {
      const double difference = value - other;
      absl::StrAppend(&text, " | ", number(other), " | ", difference > 0 ? "+" : "",
                      number(difference));
    }
    text += " |\n";
  }
  return absl::StrCat(text, std::string(kWeightedNote));
}

std::string SimulationText(const CompileFacts& candidate, const CompileFacts& reference) {
  const SimulationSummary ours = Summarise(candidate);
  if (ours.values.empty()) {
    return ours.not_covered.empty() ? "None.\n"
                                    : absl::StrCat("Not covered: ", Inline(ours.not_covered), "\n");
  }
  const SimulationSummary theirs = Summarise(reference);
  const bool both = theirs.gpu == ours.gpu && !theirs.values.empty();
  const FactSchema& schema = **FindSimulationSchema(kCudaSimulationSchemaId);
  std::string text = absl::StrCat("Estimated for ", Inline(ours.gpu),
                                  ", without running anything; the slowest resource is ",
                                  std::string(Slowest(ours)));
  if (both)
    absl::StrAppend(&text, " for the candidate, ", std::string(Slowest(theirs)),
                    " for the reference");
  text +=
      both ? ".\n\n| figure | candidate | reference | candidate / reference |\n|---|---|---|---|\n"
           : ".\n\n| figure | candidate |\n|---|---|\n";
  for (const ShownSimulation& shown : kShownSimulations) {
    const size_t index = SimulationIndex(shown.name);
    const double value = ours.values[index];
    const double other = both ? theirs.values[index] : 0;
    if (value == 0 && other == 0) continue;
    absl::StrAppend(&text, "| ", std::string(schema.meanings[index]), shown.unit, " | ",
                    NumberText(value, 4));
    if (both) {
      absl::StrAppend(&text, " | ", NumberText(other, 4), " | ",
                      other == 0 ? "-" : NumberText(value / other, 4));
    }
    text += " |\n";
  }
  return text;
}

std::string CandidateText(const Candidate& candidate) {
  std::string text =
      BuildText(candidate.flags, candidate.tunables, candidate.launches, candidate.workspace_bytes);
  if (!text.empty()) text += '\n';
  return text + Fenced(candidate.source, KindInfoOf(candidate.kind).fence);
}

}  // namespace kernelcast
