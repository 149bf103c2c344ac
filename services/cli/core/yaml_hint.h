#ifndef KERNELCAST_SERVICES_CLI_CORE_YAML_HINT_H_
#define KERNELCAST_SERVICES_CLI_CORE_YAML_HINT_H_

#include <string>
#include <string_view>

namespace kernelcast::cli {

// Explains common mistakes in a YAML file, by the line (from 1) at which reading it failed: tabs in
// front, an unquoted ": " in a text, quotes around a number. Empty if the line has none of them.
std::string YamlHint(std::string_view text, int line);

// The line in a message such as "problem.yaml:3: what is wrong" about the file `name`; 0: none.
int LineInMessage(std::string_view message, std::string_view name);

}  // namespace kernelcast::cli

#endif  // KERNELCAST_SERVICES_CLI_CORE_YAML_HINT_H_
