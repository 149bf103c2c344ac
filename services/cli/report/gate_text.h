#ifndef KERNELCAST_SERVICES_CLI_REPORT_GATE_TEXT_H_
#define KERNELCAST_SERVICES_CLI_REPORT_GATE_TEXT_H_

#include <string>
#include <vector>

#include "services/cli/report/model.h"

namespace kernelcast::cli {

inline constexpr char kNothingCarriesOver[] =
    "no finalist carries over to the held-out bench shapes";

// Whether the finalists were measured at held-out bench shapes and none of them may be the best.
bool NothingCarriesOver(const v1::Search& search);

// One line for each finalist that was measured at held-out bench shapes: "k_1 does not carry over:
// 2.40x [2.38, 2.42] at the bench shapes, 0.81x [0.80, 0.82] at the held-out ones".
std::vector<std::string> GateLines(const v1::Search& search);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_REPORT_GATE_TEXT_H_
