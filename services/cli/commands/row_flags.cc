#include "services/cli/commands/row_flags.h"

#include <optional>

#include "common/base/status.h"
#include "common/domain/bins.h"

namespace kernelcast::cli {

void AddRowFlags(CLI::App& app, RowFlags& flags) {
  std::vector<std::string> formats = {"auto"};
  for (const RowFormat format : kRowFormats) formats.emplace_back(Name(format));
  std::vector<std::string> schemes;
  for (const BinScheme* scheme : BinScheme::All()) schemes.push_back(scheme->id());
  app.add_option("--format", flags.format,
                 "Format of the files; auto detects it from the first line of each file")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  app.add_option("--bin-scheme", flags.bin_scheme,
                 "Bins of prediction rows that name none; truths are labelled to match [" +
                     std::string(BinScheme::kPaperFormulaId) + "]")
      ->check(CLI::IsMember(schemes));
}

absl::StatusOr<OutcomeFiles> ReadRowFiles(const std::vector<std::string>& files,
                                          const RowFlags& flags) {
  std::optional<RowFormat> format;
  if (flags.format != "auto") {
    KC_ASSIGN_OR_RETURN(format, ParseRowFormat(flags.format));
  }
  return ReadOutcomes(files, format, flags.bin_scheme);
}

}  // namespace kernelcast::cli
