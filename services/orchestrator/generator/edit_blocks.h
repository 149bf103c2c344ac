#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_EDIT_BLOCKS_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_EDIT_BLOCKS_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::orchestrator {

// Edits of a source in the form
//
//   <<<<<<< SEARCH
//   lines of the source
//   =======
//   lines that take their place
//   >>>>>>> REPLACE
//
// Marks have five or more characters. If an opening mark is indented, the lines of its block lose
// as much indentation. Lines outside blocks are ignored.
struct EditBlock {
  std::vector<std::string_view> search;
  std::vector<std::string_view> replace;
};

struct EditBlocks {
  static constexpr size_t kMaxBlocks = 64;

  std::vector<EditBlock> blocks;
  size_t last_at = 0;  // byte where the last block begins
  bool open = false;   // the text ends inside a block
  std::string fault;   // why the blocks cannot be read; empty: they can, if not `open`

  bool any() const { return open || !blocks.empty() || !fault.empty(); }
};

// The text must outlive the result.
EditBlocks ReadEditBlocks(std::string_view text);

struct EditedSource {
  enum class Fault { kNone, kNotFound, kFoundTwice };

  Fault fault = Fault::kNone;
  std::string reason;  // one line, if there is a fault
  std::string source;
};

// Makes the edits in order, each in the result of those before it. The lines that an edit searches
// must occur once. Trailing white space of lines does not count. The time is linear in the size of
// the source for each edit.
EditedSource ApplyEdits(const std::vector<EditBlock>& edits, std::string_view source);

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_GENERATOR_EDIT_BLOCKS_H_
