#include "services/orchestrator/generator/answer_reader.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/bounded_json.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/domain/candidate_json.h"
#include "common/domain/text.h"
#include "services/orchestrator/core/novelty.h"
#include "services/orchestrator/generator/edit_blocks.h"

namespace kernelcast::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kEntry = "kernelcast_run";
constexpr std::string_view kKernelMark = "__global__";
constexpr std::string_view kPythonWords[] = {"", "python", "py", "python3"};
// Each task format requires a definition with one of these names.
constexpr std::string_view kPythonEntries[] = {"ModelNew", "def run(", "custom_kernel"};
constexpr size_t kMaxBlocks = 64;
constexpr int kMaxInlined = 16;
constexpr size_t kMaxReasonBytes = 300;

constexpr std::string_view kCodeWords[] = {"",     "c",   "c++", "cc",  "cpp",      "cxx",     "cu",
                                           "cuda", "cuh", "h",   "hpp", "cuda-c++", "cuda-cpp"};
constexpr std::string_view kJsonWords[] = {"json", "jsonc", "json5"};
constexpr const char* kSourceKeys[] = {"source", "code", "kernel_source"};
// Names that models use for the fields, besides the official ones.
constexpr std::pair<const char*, const char*> kLaunchSynonyms[] = {
    {"name", "kernel"},
    {"args", "arguments"},
    {"shared_memory", "shared_memory_bytes"},
    {"shared_bytes", "shared_memory_bytes"},
    {"smem_bytes", "shared_memory_bytes"},
};
constexpr const char* kLaunchKeys[] = {"kernel",    "grid",   "block", "shared_memory_bytes",
                                       "arguments", "cluster"};

bool IsIndent(char c) { return c == ' ' || c == '\t' || c == '\r'; }

template <class Words>
bool IsOneOf(std::string_view word, const Words& words) {
  return std::ranges::find(words, word) != std::end(words);
}

struct Block {
  std::string word;  // lower case
  std::string file;  // name without folders; empty: no name
  std::string text;
  size_t at = 0;  // byte of the answer where the opening fence begins
  bool closed = false;
};

// Parses "cpp", "cuda title=\"a/b.cuh\"" or "cpp:b.h" into the language and the file name.
void ReadInfo(std::string_view info, Block& block) {
  info = Trim(info);
  const size_t word_end = std::min(info.find_first_of(" \t:{,"), info.size());
  for (const char c : info.substr(0, word_end)) {
    block.word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::string_view rest = Trim(info.substr(word_end));
  const size_t equals = rest.rfind('=');
  if (equals != std::string_view::npos) rest.remove_prefix(equals + 1);
  while (!rest.empty() && std::string_view("\"' :{},").find(rest.front()) != rest.npos) {
    rest.remove_prefix(1);
  }
  while (!rest.empty() && std::string_view("\"' :{},").find(rest.back()) != rest.npos) {
    rest.remove_suffix(1);
  }
  rest.remove_prefix(std::min(rest.rfind('/') + 1, rest.size()));
  if (rest.find('.') != std::string_view::npos && IsToken(rest)) block.file = rest;
}

// The file name on a line that contains nothing else, such as "**helper.cuh**:".
std::string NameOnLine(std::string_view line) {
  constexpr std::string_view kDecoration = "*`#_:()\"' \t\r";
  const size_t first = line.find_first_not_of(kDecoration);
  if (first == std::string_view::npos) return "";
  line = line.substr(first, line.find_last_not_of(kDecoration) + 1 - first);
  const size_t dot = line.rfind('.');
  if (dot == std::string_view::npos || !IsToken(line)) return "";
  const std::string_view extension = line.substr(dot + 1);
  return extension.empty() || !IsOneOf(extension, kCodeWords) ? "" : std::string(line);
}

struct Fence {
  char mark = 0;
  size_t count = 0;
  size_t indent = 0;
  std::string_view info;
};

// The fence on this line, opening or closing.
std::optional<Fence> FenceOf(std::string_view line) {
  Fence fence;
  while (fence.indent < line.size() && IsIndent(line[fence.indent])) ++fence.indent;
  size_t at = fence.indent;
  if (at == line.size() || (line[at] != '`' && line[at] != '~')) return std::nullopt;
  fence.mark = line[at];
  while (at < line.size() && line[at] == fence.mark) ++at;
  fence.count = at - fence.indent;
  fence.info = line.substr(at);
  if (fence.count < 3 || fence.info.find('`') != std::string_view::npos) return std::nullopt;
  return fence;
}

std::vector<Block> ReadBlocks(std::string_view text) {
  std::vector<Block> blocks;
  std::optional<Fence> open;
  std::string_view last_line;
  const size_t size = text.size();
  while (!text.empty()) {
    const size_t at = size - text.size();
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::optional<Fence> fence = FenceOf(line);
    if (!open.has_value()) {
      if (fence.has_value() && blocks.size() < kMaxBlocks) {
        open = fence;
        Block& block = blocks.emplace_back();
        block.at = at;
        ReadInfo(fence->info, block);
        if (block.file.empty()) block.file = NameOnLine(last_line);
      } else if (!IsBlank(line)) {
        last_line = line;
      }
      continue;
    }
    Block& block = blocks.back();
    if (fence.has_value() && fence->mark == open->mark && fence->count >= open->count &&
        IsBlank(fence->info)) {
      block.closed = true;
      open.reset();
      last_line = {};
      continue;
    }
    size_t indent = 0;
    while (indent < open->indent && indent < line.size() && IsIndent(line[indent])) ++indent;
    block.text.append(line.substr(indent)).push_back('\n');
  }
  return blocks;
}

bool Defines(std::string_view normalized, bool device) {
  return normalized.find(device ? kKernelMark : kEntry) != std::string_view::npos;
}

bool LooksLikeCode(std::string_view text) {
  constexpr std::string_view kBeginnings[] = {"#",        "//",        "/*",        "extern",
                                              "template", "namespace", "constexpr", "__global__",
                                              "using",    "static",    "struct"};
  return std::ranges::any_of(kBeginnings, [text](std::string_view beginning) {
    return text.starts_with(beginning) && !text.starts_with("# ") && !text.starts_with("##");
  });
}

// Inserts the blocks with file names where the source includes them.
std::string Inlined(std::string source, const std::vector<Block>& blocks, const Block* main) {
  for (int i = 0; i < kMaxInlined; ++i) {
    bool changed = false;
    for (size_t at = source.find("#include"); at != std::string::npos && !changed;
         at = source.find("#include", at + 1)) {
      const size_t end = std::min(source.find('\n', at), source.size());
      const std::string_view line = std::string_view(source).substr(at, end - at);
      const size_t open = line.find('"');
      const size_t close = line.rfind('"');
      if (open == std::string_view::npos || close <= open) continue;
      std::string_view name = line.substr(open + 1, close - open - 1);
      name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
      const auto found = std::ranges::find_if(blocks, [&](const Block& block) {
        return &block != main && !block.file.empty() && block.file == name;
      });
      if (found == blocks.end()) continue;
      if (source.size() + found->text.size() > kMaxKernelBytes) return source;
      source.replace(at, end - at, found->text);
      changed = true;
    }
    if (!changed) break;
  }
  return source;
}

// Wraps a single value in a list.
void MakeList(Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_array()) return;
  Json list = Json::array();
  if (!found->is_null()) list.push_back(std::move(*found));
  *found = std::move(list);
}

// The description in the form that ApplyCandidateFields expects, without unknown fields and fields
// that a model must not set.
Json Mended(const Json& described) {
  Json object = Json::object();
  for (const char* key : {"launches", "workspace_bytes", "flags", "tunables"}) {
    if (described.contains(key) && !described[key].is_null()) object[key] = described[key];
  }
  if (!object.contains("launches") && described.contains("launch")) {
    object["launches"] = described["launch"];
  }
  MakeList(object, "flags");
  MakeList(object, "launches");
  if (!object.contains("launches")) return object;
  for (Json& launch : object["launches"]) {
    if (!launch.is_object()) continue;
    for (const auto& [synonym, key] : kLaunchSynonyms) {
      if (launch.contains(synonym) && !launch.contains(key)) launch[key] = launch[synonym];
    }
    Json known = Json::object();
    for (const char* key : kLaunchKeys) {
      if (launch.contains(key) && !launch[key].is_null()) known[key] = launch[key];
    }
    launch = std::move(known);
    for (const char* key : {"grid", "block", "arguments", "cluster"}) MakeList(launch, key);
  }
  return object;
}

bool Describes(const Json& object) {
  if (!object.is_object()) return false;
  for (const char* key : {"launches", "launch", "workspace_bytes", "flags", "tunables"}) {
    if (object.contains(key)) return true;
  }
  return std::ranges::any_of(kSourceKeys,
                             [&object](const char* key) { return object.contains(key); });
}

Json ParsedOrNull(std::string_view text, std::set<Repair>& repairs) {
  Json parsed = ParseLenientJson<Json>(text, repairs);
  return parsed.is_discarded() ? Json() : parsed;
}

std::string SourceIn(const Json& object) {
  for (const char* key : kSourceKeys) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

ReadKernel Faulty(ReadFault fault, std::string_view reason) {
  ReadKernel result;
  result.fault = fault;
  result.reason = TruncateUtf8(SanitizeUtf8(reason), kMaxReasonBytes);
  return result;
}

class Reader {
 public:
  Reader(std::string_view answer, bool cut_off, const Candidate& model,
         const std::vector<std::string>& entries)
      : cut_off_(cut_off), model_(model), entries_(entries), text_(Trim(answer)) {}

  ReadKernel Read() {
    if (text_.empty()) {
      return cut_off_ ? Faulty(ReadFault::kCutOff,
                               "the answer ended before it said anything: it was too long")
                      : Faulty(ReadFault::kEmpty, "the answer is empty");
    }
    blocks_ = ReadBlocks(text_);
    edits_ = ReadEditBlocks(text_);
    FindDescription();
    const bool whole = FindSource();
    if (edits_.any() && !(whole && source_at_ > edits_.last_at)) {
      if (std::optional<ReadKernel> faulty = Edit()) return *std::move(faulty);
    } else if (!whole) {
      return NoSource();
    }
    if (source_.size() > kMaxKernelBytes) {
      return Faulty(ReadFault::kTooLong,
                    absl::StrCat("the source has ", source_.size(), " bytes; at most ",
                                 kMaxKernelBytes, " are allowed"));
    }
    if (!IsSourceText(source_)) {
      return Faulty(ReadFault::kBadText, "the source is not UTF-8, or holds a NUL");
    }
    return Describe();
  }

 private:
  bool wants_device() const { return KindInfoOf(model_.kind).launch_form == LaunchForm::kCuda; }
  bool wants_python() const { return KindInfoOf(model_.kind).takes_tasks; }
  bool IsCode(const Block& block) const {
    return wants_python() ? IsOneOf(block.word, kPythonWords) : IsOneOf(block.word, kCodeWords);
  }

  bool Mentions(const char* key) const {
    return description_.is_object() && description_.contains(key);
  }

  void FindDescription() {
    if (text_.front() == '{') description_ = ParsedOrNull(text_, repairs_);
    if (Describes(description_)) return;
    description_ = Json();
    repairs_.clear();
    for (const Block& block : blocks_) {
      const std::string_view text = Trim(block.text);
      const bool may_be = IsOneOf(block.word, kJsonWords) ||
                          (block.word.empty() && !text.empty() && text.front() == '{');
      if (!may_be) continue;
      std::set<Repair> repairs;
      Json parsed = ParsedOrNull(text, repairs);
      if (Describes(parsed)) {
        description_ = std::move(parsed);
        repairs_ = std::move(repairs);
      } else if (parsed.is_null()) {
        unreadable_description_ = true;
      }
    }
  }

  bool IsKernel(std::string_view source) {
    if (wants_python()) {
      const auto has = [&](std::string_view entry) {
        return source.find(entry) != std::string_view::npos;
      };
      return entries_.empty() ? std::ranges::any_of(kPythonEntries, has)
                              : std::ranges::all_of(entries_, has);
    }
    const std::string normalized = NormalizedSource(source);
    const bool device = Defines(normalized, /*device=*/true);
    const bool entry = Defines(normalized, /*device=*/false);
    return entry || (wants_device() && device);
  }

  bool FindSource() {
    if (description_.is_object()) {
      source_ = SourceIn(description_);
      if (!source_.empty()) {
        has_code_ = true;
        if (IsKernel(source_)) return true;
      }
    }
    const Block* main = nullptr;
    for (const Block& block : blocks_) {
      if (!IsCode(block) || IsBlank(block.text)) continue;
      if (edits_.any() && ReadEditBlocks(block.text).any()) continue;
      if (!block.closed && cut_off_) {
        cut_code_ = true;
        continue;
      }
      has_code_ = true;
      if (block.text.size() <= 2 * kMaxKernelBytes && !IsKernel(block.text)) continue;
      main = &block;
    }
    if (main != nullptr) {
      source_at_ = main->at;
      source_ = wants_python() ? main->text : Inlined(main->text, blocks_, main);
      return true;
    }
    if (blocks_.empty() && LooksLikeCode(text_) && IsKernel(text_)) {
      if (cut_off_) {
        cut_code_ = true;
        return false;
      }
      source_ = absl::StrCat(std::string(text_), "\n");
      return true;
    }
    return false;
  }

  // Makes the edits in the model's source. Empty: there is no fault.
  std::optional<ReadKernel> Edit() {
    // Edits may be missing.
    if (cut_off_) {
      return Faulty(ReadFault::kCutOff, "the answer ended before its edits did: it was too long");
    }
    if (!edits_.fault.empty()) return Faulty(ReadFault::kBadEdit, edits_.fault);
    if (edits_.open) {
      return Faulty(ReadFault::kBadEdit, absl::StrCat("edit ", edits_.blocks.size() + 1,
                                                      ": no >>>>>>> REPLACE ends it"));
    }
    EditedSource edited = ApplyEdits(edits_.blocks, model_.source);
    switch (edited.fault) {
      case EditedSource::Fault::kNone: break;
      case EditedSource::Fault::kNotFound: return Faulty(ReadFault::kEditNotFound, edited.reason);
      case EditedSource::Fault::kFoundTwice:
        return Faulty(ReadFault::kEditFoundTwice, edited.reason);
    }
    source_ = std::move(edited.source);
    edited_ = true;
    if (source_.size() <= kMaxKernelBytes && !IsKernel(source_)) {
      has_code_ = true;
      return NoSource();
    }
    return std::nullopt;
  }

  ReadKernel NoSource() const {
    if (cut_code_ || cut_off_) {
      return Faulty(ReadFault::kCutOff, "the answer ended before its code did: it was too long");
    }
    if (has_code_) {
      if (wants_python() && !entries_.empty()) {
        return Faulty(ReadFault::kNoEntry,
                      absl::StrCat("no block of code defines ", WordList(entries_, "and")));
      }
      return Faulty(ReadFault::kNoEntry,
                    wants_python() ? "no block of code defines ModelNew, run or custom_kernel"
                    : wants_device()
                        ? "no block of code has a kernel that is extern \"C\" __global__"
                        : "no block of code defines kernelcast_run");
    }
    return Faulty(ReadFault::kNoCode, "no fenced block of code");
  }

  ReadKernel Describe() {
    ReadKernel result;
    result.repairs = repairs_;
    Candidate& candidate = result.candidate;
    candidate.source = std::move(source_);
    candidate.target = model_.target;
    if (wants_python()) {
      candidate.kind = model_.kind;
      return result;
    }
    const CandidateKind host = KindOfSource(/*is_python=*/false, /*has_launches=*/false);
    candidate.kind = host;
    if (description_.is_object()) {
      const absl::Status applied =
          ApplyCandidateFields("JSON", Mended(description_), {}, candidate);
      if (!applied.ok()) return Faulty(ReadFault::kBadDescription, std::string(applied.message()));
    }
    if (edited_ && candidate.flags.empty() && !Mentions("flags")) candidate.flags = model_.flags;
    if (edited_ && candidate.tunables.empty()) candidate.tunables = model_.tunables;
    const std::string normalized = NormalizedSource(candidate.source);
    if (!wants_device() || Defines(normalized, /*device=*/false)) {
      // Launches are meaningless with a host entry.
      candidate.kind = host;
      candidate.launches.clear();
      candidate.workspace_bytes.clear();
      return result;
    }
    candidate.kind = model_.kind;
    if (!candidate.launches.empty()) return result;
    const bool as_before = std::ranges::all_of(model_.launches, [&](const Launch& launch) {
      return normalized.find(launch.kernel) != std::string::npos;
    });
    if (model_.launches.empty() || !as_before) {
      return Faulty(unreadable_description_ ? ReadFault::kBadDescription : ReadFault::kNoLaunches,
                    unreadable_description_ ? "the block of JSON is not JSON"
                                            : "no block of JSON says how the kernels are launched");
    }
    candidate.launches = model_.launches;
    if (candidate.workspace_bytes.empty()) candidate.workspace_bytes = model_.workspace_bytes;
    if (candidate.tunables.empty()) candidate.tunables = model_.tunables;
    return result;
  }

  const bool cut_off_;
  const Candidate& model_;
  const std::vector<std::string>& entries_;
  const std::string_view text_;
  std::vector<Block> blocks_;
  Json description_;
  std::set<Repair> repairs_;  // of description_
  bool unreadable_description_ = false;
  EditBlocks edits_;
  std::string source_;
  size_t source_at_ = 0;
  bool edited_ = false;  // source_ comes from edits
  bool has_code_ = false;
  bool cut_code_ = false;
};

}  // namespace

std::string_view Name(ReadFault fault) {
  switch (fault) {
    case ReadFault::kNone: return "none";
    case ReadFault::kEmpty: return "empty";
    case ReadFault::kCutOff: return "cut_off";
    case ReadFault::kRefused: return "refused";
    case ReadFault::kContentFilter: return "content_filter";
    case ReadFault::kNoCode: return "no_code";
    case ReadFault::kNoEntry: return "no_entry";
    case ReadFault::kNoLaunches: return "no_launches";
    case ReadFault::kBadDescription: return "bad_description";
    case ReadFault::kBadText: return "bad_text";
    case ReadFault::kTooLong: return "too_long";
    case ReadFault::kBadEdit: return "bad_edit";
    case ReadFault::kEditNotFound: return "edit_not_found";
    case ReadFault::kEditFoundTwice: return "edit_found_twice";
  }
  return "none";
}

ReadKernel ReadAnswer(std::string_view answer, bool cut_off, const Candidate& model,
                      const std::vector<std::string>& entries) {
  return Reader(answer, cut_off, model, entries).Read();
}

}  // namespace kernelcast::orchestrator
