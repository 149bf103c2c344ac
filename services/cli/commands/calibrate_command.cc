#include <cmath>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"
#include "common/config/number_flags.h"
#include "services/cli/commands/context.h"
#include "services/cli/commands/row_flags.h"
#include "services/cli/core/calibration_fit.h"
#include "services/cli/core/paths.h"
#include "services/cli/core/table.h"

namespace kernelcast::cli {
namespace {

constexpr const char* kAll = "all";

struct CalibrateFlags {
  std::vector<std::string> files;
  RowFlags rows;
  std::string method = kAll;
  std::string output;
  bool unweighted = false;
  CalibrationOptions options;
};

Json ResultJson(const MethodResult& result) {
  const ForecastMetrics& metrics = result.held_out;
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"method", std::string(Name(result.method))},
          {"version", result.calibrator.version()},
          {"expected_calibration_error", metrics.expected_calibration_error},
          {"expected_calibration_error_by_chance", number(result.error_by_chance)},
          {"median_problem_error", number(result.median_problem_error)},
          {"median_problem_error_by_chance", number(result.median_problem_error_by_chance)},
          {"negative_log_likelihood", metrics.negative_log_likelihood},
          {"half_brier", metrics.half_brier},
          {"crps", metrics.crps},
          {"accuracy", metrics.accuracy},
          {"off_by_one_accuracy", metrics.off_by_one_accuracy}};
}

absl::StatusOr<ExitCode> RunCalibrate(Context& context, const CalibrateFlags& flags) {
  Console& console = context.console;
  CalibrationOptions options = flags.options;
  options.weighted = !flags.unweighted;
  if (flags.method == kAll) {
    options.methods = {CalibrationMethod::kTemperature, CalibrationMethod::kVector};
  } else {
    KC_ASSIGN_OR_RETURN(const CalibrationMethod method, ParseCalibrationMethod(flags.method));
    options.methods = {method};
  }
  KC_ASSIGN_OR_RETURN(const OutcomeFiles files, ReadRowFiles(flags.files, flags.rows));
  for (const std::string& note : files.notes) console.Note(OneLine(note));
  KC_ASSIGN_OR_RETURN(const CalibrationFit fit, FitCalibrators(files.outcomes, options));

  Table table({{"method"},
               {"ECE", Table::Align::kRight},
               {"by chance", Table::Align::kRight},
               {"ECE, median problem", Table::Align::kRight},
               {"by chance", Table::Align::kRight},
               {"NLL", Table::Align::kRight},
               {"half-Brier", Table::Align::kRight},
               {"CRPS", Table::Align::kRight},
               {"accuracy", Table::Align::kRight}});
  Json methods = Json::array();
  for (const MethodResult& result : fit.methods) {
    const ForecastMetrics& metrics = result.held_out;
    table.AddRow(
        {result.method == CalibrationMethod::kNone ? "uncalibrated"
                                                   : std::string(Name(result.method)),
         FormatFixed(metrics.expected_calibration_error, 3), FormatFixed(result.error_by_chance, 3),
         FormatFixed(result.median_problem_error, 3),
         FormatFixed(result.median_problem_error_by_chance, 3),
         FormatFixed(metrics.negative_log_likelihood, 3), FormatFixed(metrics.half_brier, 3),
         FormatFixed(metrics.crps, 3), FormatFixed(metrics.accuracy, 3)});
    methods.push_back(ResultJson(result));
  }
  // Write the requested method, or the best one if all were requested.
  const MethodResult& chosen =
      fit.methods[flags.method == kAll ? fit.best : fit.methods.size() - 1];
  console.Out(absl::StrCat(FormatCount(fit.items), " forecasts of ", FormatCount(fit.problems),
                           " problems, ", fit.bin_scheme_id,
                           "; each problem is scored by a calibrator ",
                           "fitted without its fold, one of ", fit.folds, "\n\n",
                           table.Render(console.style(), console.width()),
                           "\nchosen: ", chosen.calibrator.version(), "\n"));
  Json json = {{"items", fit.items},
               {"problems", fit.problems},
               {"folds", fit.folds},
               {"bin_scheme_id", fit.bin_scheme_id},
               {"methods", methods},
               {"chosen", std::string(Name(chosen.method))},
               {"version", chosen.calibrator.version()}};
  if (!flags.output.empty()) {
    Json calibrator = CalibratorToJson(chosen.calibrator);
    calibrator["held_out"] = ResultJson(chosen);
    KC_RETURN_IF_ERROR(WriteFileAtomically(flags.output, calibrator.dump(2) + "\n"));
    console.Note(absl::StrCat("calibrator: ", flags.output));
    json["output"] = flags.output;
  }
  console.Line(json);
  return ExitCode::kOk;
}

}  // namespace

void AddCalibrateCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* calibrate =
      AddCommand(app, context, "calibrate",
                 "Calibrate forecast probabilities, and score the calibrators on other problems",
                 [&context, flags] { return RunCalibrate(context, *flags); });
  calibrate
      ->add_option("FILE.jsonl", flags->files,
                   "Exported records, or prediction rows with their evaluation rows")
      ->required();
  AddRowFlags(*calibrate, flags->rows);
  calibrate
      ->add_option(
          "--method", flags->method,
          "Calibration method; all chooses the smallest negative log likelihood on other problems")
      ->check(CLI::IsMember({kAll, "temperature", "vector"}))
      ->capture_default_str();
  calibrate
      ->add_option("-o,--output", flags->output,
                   "Output file for the calibrator, fitted to all data")
      ->type_name("FILE.json");
  calibrate
      ->add_option(
          "--folds", flags->options.folds,
          "Number of folds of the problems, each scored by calibrators fitted to the others")
      ->check(WholeNumberFrom(2, 1000))
      ->capture_default_str();
  calibrate->add_flag("--unweighted", flags->unweighted,
                      "Weight all forecasts equally instead of by 1 / propensity");
  calibrate->add_option("--seed", flags->options.seed, "Seed of the folds")
      ->check(WholeNumberFrom(0))
      ->capture_default_str();
}

}  // namespace kernelcast::cli
