#include "services/cli/commands/completion.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {
namespace {

// Prints the ids of searches, for completions.
constexpr char kSearchIds[] = "kernelcast searches --ids 2>/dev/null";

struct Flag {
  std::vector<std::string> names;  // "--json", "-q"
  std::string description;
  bool takes_value = false;
  std::vector<std::string> choices;
  bool file = false;
  bool folder = false;
  bool search = false;
};

struct Command {
  std::string name;
  std::string description;
  std::vector<Flag> flags;
  bool takes_problem = false;
  bool takes_file = false;
  bool takes_search = false;
  std::vector<std::string> words;  // allowed positional words, or subcommands
};

// Parses "{a,b,c}", CLI11's notation for a set of choices.
std::vector<std::string> ChoicesOf(const std::string& type_name) {
  std::vector<std::string> choices;
  const size_t open = type_name.find('{');
  const size_t close = type_name.find('}');
  if (open == std::string::npos || close == std::string::npos) return choices;
  for (size_t start = open + 1; start < close;) {
    const size_t end = std::min(type_name.find(',', start), close);
    choices.push_back(type_name.substr(start, end - start));
    start = end + 1;
  }
  std::sort(choices.begin(), choices.end());
  return choices;
}

// Adds the options of a command, each name once.
void AddOptions(const CLI::App& app, Command& command) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (option->get_positional() && option->get_lnames().empty()) {
      const std::string name = option->get_name(true);
      command.takes_problem = command.takes_problem || name == "PROBLEM";
      command.takes_file = command.takes_file || name.find("FILE") == 0 || name == "DIR" ||
                           name == "BEFORE" || name == "AFTER";
      command.takes_search = command.takes_search || name == "SEARCH_ID";
      for (const std::string& word : ChoicesOf(type)) command.words.push_back(word);
      continue;
    }
    Flag flag;
    for (const std::string& name : option->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) flag.names.push_back("-" + name);
    flag.description = option->get_description();
    flag.takes_value = option->get_items_expected_max() > 0;
    flag.choices = ChoicesOf(type);
    flag.file = type.find("FILE") != std::string::npos || type.find("PATH") != std::string::npos;
    flag.folder = type.find("DIR") != std::string::npos;
    flag.search = type.find("ID") == 0;
    const bool known = std::ranges::any_of(
        command.flags, [&](const Flag& other) { return other.names == flag.names; });
    if (!known) command.flags.push_back(std::move(flag));
  }
}

std::vector<Command> CommandsOf(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* sub : app.get_subcommands({})) {
    Command command;
    command.name = sub->get_name();
    command.description = sub->get_description();
    AddOptions(*sub, command);
    for (const CLI::App* action : sub->get_subcommands({})) {
      command.words.push_back(action->get_name());
      AddOptions(*action, command);
    }
    commands.push_back(std::move(command));
  }
  std::sort(commands.begin(), commands.end(),
            [](const Command& a, const Command& b) { return a.name < b.name; });
  return commands;
}

std::string JoinWords(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) absl::StrAppend(&text, text.empty() ? "" : separator, word);
  return text;
}

// Escapes text for a single-quoted fish string.
std::string FishText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// Escapes text for a single-quoted zsh string within an _arguments specification.
std::string ZshText(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      out += '\\';
      out += c;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string BashCompletion(const CLI::App& app) {
  const std::vector<Command> commands = CommandsOf(app);
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const Command& command : commands) names.push_back(command.name);
  std::string script = absl::StrCat(
      "# Completion of kernelcast for bash; made by `kernelcast completion bash`.\n"
      "_kernelcast() {\n"
      "  local cur prev command word\n"
      "  cur=${COMP_WORDS[COMP_CWORD]}\n"
      "  prev=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  command=\n"
      "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
      "    if [[ $word != -* ]]; then command=$word; break; fi\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case \"$command $prev\" in\n");
  for (const Command& command : commands) {
    for (const Flag& flag : command.flags) {
      if (!flag.takes_value) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : flag.names) {
        patterns.push_back(absl::StrCat("\"", command.name, " ", name, "\""));
      }
      std::string action = "return";
      if (!flag.choices.empty()) {
        action = absl::StrCat("mapfile -t COMPREPLY < <(compgen -W '", JoinWords(flag.choices, " "),
                              "' -- \"$cur\"); return");
      } else if (flag.folder) {
        action = "mapfile -t COMPREPLY < <(compgen -d -- \"$cur\"); return";
      } else if (flag.file) {
        action = "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return";
      } else if (flag.search) {
        action = absl::StrCat("mapfile -t COMPREPLY < <(compgen -W \"$(", kSearchIds,
                              ")\" -- \"$cur\"); return");
      }
      absl::StrAppend(&script, "    ", JoinWords(patterns, " | "), ") ", action, " ;;\n");
    }
  }
  absl::StrAppend(&script,
                  "  esac\n  case $command in\n    '') mapfile -t COMPREPLY < <(compgen -W '",
                  JoinWords(names, " "), " --help --version' -- \"$cur\") ;;\n");
  for (const Command& command : commands) {
    std::vector<std::string> flags;
    for (const Flag& flag : command.flags) {
      for (const std::string& name : flag.names) flags.push_back(name);
    }
    absl::StrAppend(&script, "    ", command.name, ")\n      if [[ $cur == -* ]]; then\n",
                    "        mapfile -t COMPREPLY < <(compgen -W '", JoinWords(flags, " "),
                    "' -- \"$cur\")\n");
    if (command.takes_problem) {
      absl::StrAppend(&script,
                      "      else\n        mapfile -t COMPREPLY < <(compgen -d -W "
                      "\"$(kernelcast problems --names 2>/dev/null)\" -- \"$cur\"; "
                      "compgen -f -X '!*.py' -- \"$cur\")\n");
    } else if (!command.words.empty()) {
      absl::StrAppend(&script, "      else\n        mapfile -t COMPREPLY < <(compgen -W '",
                      JoinWords(command.words, " "), "' -- \"$cur\")\n");
    } else if (command.takes_search) {
      absl::StrAppend(&script, "      else\n        mapfile -t COMPREPLY < <(compgen -W \"$(",
                      kSearchIds, ")\" -- \"$cur\")\n");
    } else if (command.takes_file) {
      absl::StrAppend(&script,
                      "      else\n        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n");
    }
    absl::StrAppend(&script, "      fi\n      ;;\n");
  }
  absl::StrAppend(&script, "  esac\n}\ncomplete -F _kernelcast kernelcast\n");
  return script;
}

std::string ZshCompletion(const CLI::App& app) {
  const std::vector<Command> commands = CommandsOf(app);
  std::string script =
      "#compdef kernelcast\n"
      "# Completion of kernelcast for zsh; made by `kernelcast completion zsh`.\n"
      "_kernelcast_problems() {\n"
      "  local -a names\n"
      "  names=(${(f)\"$(kernelcast problems --names 2>/dev/null)\"})\n"
      "  _alternative 'names:problem:compadd -a names' 'folders:folder:_files -/' "
      "'tasks:task:_files -g \"*.py\"'\n"
      "}\n"
      "_kernelcast_searches() {\n"
      "  local -a ids\n"
      "  ids=(${(f)\"$(kernelcast searches --ids 2>/dev/null)\"})\n"
      "  compadd -a ids\n"
      "}\n"
      "_kernelcast() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  _arguments -C '(- *)--help[Print help]' '(- *)--version[Print the version]' "
      "'1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command)\n"
      "      local -a commands\n"
      "      commands=(\n";
  for (const Command& command : commands) {
    absl::StrAppend(&script, "        '", command.name, ":", ZshText(command.description), "'\n");
  }
  absl::StrAppend(&script,
                  "      )\n      _describe command commands\n      ;;\n    argument)\n"
                  "      case $words[1] in\n");
  for (const Command& command : commands) {
    absl::StrAppend(&script, "        ", command.name, ")\n          _arguments");
    for (const Flag& flag : command.flags) {
      std::string action;
      if (flag.takes_value) {
        action = ":value:";
        if (!flag.choices.empty()) {
          absl::StrAppend(&action, "(", JoinWords(flag.choices, " "), ")");
        } else if (flag.folder) {
          action += "_files -/";
        } else if (flag.file) {
          action += "_files";
        } else if (flag.search) {
          action += "_kernelcast_searches";
        }
      }
      for (const std::string& name : flag.names) {
        absl::StrAppend(&script, " \\\n            '", name, "[", ZshText(flag.description), "]",
                        action, "'");
      }
    }
    if (command.takes_problem) {
      absl::StrAppend(&script, " \\\n            '1:problem:_kernelcast_problems'");
    } else if (!command.words.empty()) {
      absl::StrAppend(&script, " \\\n            '1:word:(", JoinWords(command.words, " "), ")'");
    } else if (command.takes_search) {
      absl::StrAppend(&script, " \\\n            '1:search:_kernelcast_searches'");
    } else if (command.takes_file) {
      absl::StrAppend(&script, " \\\n            '*:file:_files'");
    }
    absl::StrAppend(&script, "\n          ;;\n");
  }
  absl::StrAppend(&script, "      esac\n      ;;\n  esac\n}\n_kernelcast \"$@\"\n");
  return script;
}

std::string FishCompletion(const CLI::App& app) {
  std::string script =
      "# Completion of kernelcast for fish; made by `kernelcast completion fish`.\n"
      "function __kernelcast_problems\n"
      "  kernelcast problems --names 2>/dev/null\n"
      "  __fish_complete_directories\n"
      "  __fish_complete_suffix .py\n"
      "end\n"
      "function __kernelcast_searches\n"
      "  kernelcast searches --ids 2>/dev/null\n"
      "end\n"
      "complete -c kernelcast -f\n"
      "complete -c kernelcast -n __fish_use_subcommand -l help -d 'Print help'\n"
      "complete -c kernelcast -n __fish_use_subcommand -l version -d 'Print the version'\n";
  for (const Command& command : CommandsOf(app)) {
    absl::StrAppend(&script, "complete -c kernelcast -n __fish_use_subcommand -a ", command.name,
                    " -d '", FishText(command.description), "'\n");
    const std::string within =
        absl::StrCat("complete -c kernelcast -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const Flag& flag : command.flags) {
      absl::StrAppend(&script, within);
      for (const std::string& name : flag.names) {
        absl::StrAppend(&script, name[1] == '-' ? " -l " : " -s ",
                        name.substr(name[1] == '-' ? 2 : 1));
      }
      if (flag.takes_value && flag.file) {
        absl::StrAppend(&script, " -r -F");
      } else if (flag.takes_value) {
        absl::StrAppend(&script, " -x");
      }
      if (!flag.choices.empty()) {
        absl::StrAppend(&script, " -a '", JoinWords(flag.choices, " "), "'");
      } else if (flag.folder && !flag.file) {
        absl::StrAppend(&script, " -a '(__fish_complete_directories)'");
      } else if (flag.search) {
        absl::StrAppend(&script, " -a '(__kernelcast_searches)'");
      }
      absl::StrAppend(&script, " -d '", FishText(flag.description), "'\n");
    }
    if (command.takes_problem) {
      absl::StrAppend(&script, within, " -a '(__kernelcast_problems)'\n");
    } else if (!command.words.empty()) {
      absl::StrAppend(&script, within, " -a '", JoinWords(command.words, " "), "'\n");
    } else if (command.takes_search) {
      absl::StrAppend(&script, within, " -a '(__kernelcast_searches)'\n");
    } else if (command.takes_file) {
      absl::StrAppend(&script, within, " -F\n");
    }
  }
  return script;
}

void AddCompletionCommand(CLI::App& app, Context& context) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      AddCommand(app, context, "completion", "Print a completion script for a shell",
                 [&app, &context, shell]() -> absl::StatusOr<ExitCode> {
                   context.console.Out(*shell == "zsh"    ? ZshCompletion(app)
                                       : *shell == "fish" ? FishCompletion(app)
                                                          : BashCompletion(app));
                   return ExitCode::kOk;
                 });
  completion->add_option("SHELL", *shell, "For which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "fish", "zsh"}));
}

}  // namespace kernelcast::cli
