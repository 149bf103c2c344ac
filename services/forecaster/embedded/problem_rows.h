#ifndef KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_ROWS_H_
#define KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_ROWS_H_

#include <string>
#include <vector>

#include "services/forecaster/core/tunable_encoder.h"
#include "services/forecaster/embedded/training_row.h"

namespace kernelcast::forecaster {

// The labels of one problem, for models shared by several problems.
struct ProblemRows {
  // Problems of the same family are never used to validate each other. Empty: no family.
  std::string family;
  std::vector<const TrainingRow*> rows;
  // Encoder of the problem's space. Null: the rows have no tunables.
  const TunableEncoder* encoder = nullptr;
};

}  // namespace kernelcast::forecaster

#endif  // KERNELCAST_SERVICES_FORECASTER_EMBEDDED_PROBLEM_ROWS_H_
