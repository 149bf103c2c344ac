# Completion of kernelcast for bash; made by `kernelcast completion bash`.
_kernelcast() {
  local cur prev command word
  cur=${COMP_WORDS[COMP_CWORD]}
  prev=${COMP_WORDS[COMP_CWORD-1]}
  command=
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [[ $word != -* ]]; then command=$word; break; fi
  done
  COMPREPLY=()
  case "$command $prev" in
    "best --device-model") return ;;
    "best --output" | "best -o") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --orchestrator") return ;;
    "best --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "best --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "best --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "best --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --least-change") return ;;
    "compare --problem") return ;;
    "compare --target") return ;;
    "compare --baseline") mapfile -t COMPREPLY < <(compgen -W 'compile eager' -- "$cur"); return ;;
    "compare --device-model") return ;;
    "compare --orchestrator") return ;;
    "compare --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "compare --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "compare --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compare --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --candidates") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --target") return ;;
    "compile --worker") return ;;
    "compile --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "compile --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "compile --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "compile --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --orchestrator") return ;;
    "doctor --llm") return ;;
    "doctor --llm-model") return ;;
    "doctor --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --llm-max-tokens") return ;;
    "doctor --worker") return ;;
    "doctor --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "doctor --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "doctor --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "doctor --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "eval --format") mapfile -t COMPREPLY < <(compgen -W 'auto discovery-pairs evaluation-rows prediction-rows records search-events training-rows' -- "$cur"); return ;;
    "eval --bin-scheme") mapfile -t COMPREPLY < <(compgen -W 'paper-floor/1 sqrt2/1' -- "$cur"); return ;;
    "eval --llm") return ;;
    "eval --llm-model") return ;;
    "eval --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "eval --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "eval --llm-max-tokens") return ;;
    "eval --predictions") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "eval --prompt") return ;;
    "eval --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "eval --llm-samples") return ;;
    "eval --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "eval --problem") return ;;
    "eval --by") mapfile -t COMPREPLY < <(compgen -W 'all backend problem search' -- "$cur"); return ;;
    "eval --confidence") mapfile -t COMPREPLY < <(compgen -W 'entropy margin max-prob' -- "$cur"); return ;;
    "eval --report") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "eval --resamples") return ;;
    "eval --seed") return ;;
    "evaluate --candidates") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --target") return ;;
    "evaluate --baseline") mapfile -t COMPREPLY < <(compgen -W 'compile eager' -- "$cur"); return ;;
    "evaluate --mode") mapfile -t COMPREPLY < <(compgen -W 'check final forecast measure route' -- "$cur"); return ;;
    "evaluate --in-flight") return ;;
    "evaluate --device-model") return ;;
    "evaluate --search-id") mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur"); return ;;
    "evaluate --forecaster") mapfile -t COMPREPLY < <(compgen -W 'embedded llm pool replay' -- "$cur"); return ;;
    "evaluate --prior") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --llm") return ;;
    "evaluate --llm-model") return ;;
    "evaluate --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --llm-max-tokens") return ;;
    "evaluate --prompt") return ;;
    "evaluate --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "evaluate --llm-samples") return ;;
    "evaluate --llm-compare") mapfile -t COMPREPLY < <(compgen -W 'anchor both' -- "$cur"); return ;;
    "evaluate --llm-token-budget") return ;;
    "evaluate --replay-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --record-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --orchestrator") return ;;
    "evaluate --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "evaluate --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "evaluate --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "evaluate --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --format") mapfile -t COMPREPLY < <(compgen -W 'discovery-pairs evaluation-rows prediction-rows records rl search-events training-rows' -- "$cur"); return ;;
    "export --records") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --bin-scheme") mapfile -t COMPREPLY < <(compgen -W 'paper-floor/1 sqrt2/1' -- "$cur"); return ;;
    "export --pairs") return ;;
    "export --per-bin") return ;;
    "export --seed") return ;;
    "export --rows") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --prompt") return ;;
    "export --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "export --problem") return ;;
    "export --from-sequence") return ;;
    "export --output" | "export -o") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --orchestrator") return ;;
    "export --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "export --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "export --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "export --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --candidates") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --target") return ;;
    "forecast --worker") return ;;
    "forecast --forecaster") return ;;
    "forecast --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "forecast --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "forecast --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --prior") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --llm") return ;;
    "forecast --llm-model") return ;;
    "forecast --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --llm-max-tokens") return ;;
    "forecast --prompt") return ;;
    "forecast --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "forecast --llm-samples") return ;;
    "forecast --llm-compare") mapfile -t COMPREPLY < <(compgen -W 'anchor both' -- "$cur"); return ;;
    "forecast --llm-token-budget") return ;;
    "forecast --replay-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "forecast --record-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --book") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --problem") return ;;
    "lessons --orchestrator") return ;;
    "lessons --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "lessons --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "lessons --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "lessons --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --candidates") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --target") return ;;
    "measure --worker") return ;;
    "measure --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "measure --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "measure --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "measure --baseline") mapfile -t COMPREPLY < <(compgen -W 'compile eager' -- "$cur"); return ;;
    "measure --level") mapfile -t COMPREPLY < <(compgen -W 'check final screen' -- "$cur"); return ;;
    "report --records") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --problem") return ;;
    "report --output" | "report -o") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --device-price") return ;;
    "report --input-token-price") return ;;
    "report --cached-token-price") return ;;
    "report --output-token-price") return ;;
    "report --orchestrator") return ;;
    "report --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "report --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "report --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "report --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --target") return ;;
    "search --baseline") mapfile -t COMPREPLY < <(compgen -W 'compile eager' -- "$cur"); return ;;
    "search --budget-measurements") return ;;
    "search --budget-candidates") return ;;
    "search --budget-seconds") return ;;
    "search --budget-device-seconds") return ;;
    "search --policy") mapfile -t COMPREPLY < <(compgen -W 'risk threshold top_k' -- "$cur"); return ;;
    "search --policy-parameter") return ;;
    "search --strategy") mapfile -t COMPREPLY < <(compgen -W 'beam islands map_elites measure_all puct random selection' -- "$cur"); return ;;
    "search --strategy-parameter") return ;;
    "search --seed") return ;;
    "search --in-flight") return ;;
    "search --generator") mapfile -t COMPREPLY < <(compgen -W 'llm template' -- "$cur"); return ;;
    "search --generator-requests") return ;;
    "search --generator-tokens") return ;;
    "search --generator-in-flight") return ;;
    "search --forecast-tokens") return ;;
    "search --gate") mapfile -t COMPREPLY < <(compgen -W 'declared drawn off' -- "$cur"); return ;;
    "search --lessons") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --search-id") mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur"); return ;;
    "search --device-model") return ;;
    "search --device-price") return ;;
    "search --input-token-price") return ;;
    "search --cached-token-price") return ;;
    "search --output-token-price") return ;;
    "search --report") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --forecaster") mapfile -t COMPREPLY < <(compgen -W 'embedded llm pool replay' -- "$cur"); return ;;
    "search --prior") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --llm") return ;;
    "search --llm-model") return ;;
    "search --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --llm-max-tokens") return ;;
    "search --prompt") return ;;
    "search --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "search --llm-samples") return ;;
    "search --llm-compare") mapfile -t COMPREPLY < <(compgen -W 'anchor both' -- "$cur"); return ;;
    "search --llm-token-budget") return ;;
    "search --replay-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --record-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --generator-llm") return ;;
    "search --generator-llm-model") return ;;
    "search --generator-llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --generator-llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --generator-llm-max-tokens") return ;;
    "search --generator-prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "search --generator-patience-seconds") return ;;
    "search --orchestrator") return ;;
    "search --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "search --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "search --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "search --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --status") mapfile -t COMPREPLY < <(compgen -W 'any done failed finishing running' -- "$cur"); return ;;
    "searches --orchestrator") return ;;
    "searches --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "searches --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "searches --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "searches --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --orchestrator") return ;;
    "stop --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "stop --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "stop --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "stop --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --candidates") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "suite --only") return ;;
    "suite --output" | "suite -o") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "suite --target") return ;;
    "suite --baseline") mapfile -t COMPREPLY < <(compgen -W 'compile eager' -- "$cur"); return ;;
    "suite --mode") mapfile -t COMPREPLY < <(compgen -W 'check final forecast measure route' -- "$cur"); return ;;
    "suite --in-flight") return ;;
    "suite --device-model") return ;;
    "suite --forecaster") mapfile -t COMPREPLY < <(compgen -W 'embedded llm pool replay' -- "$cur"); return ;;
    "suite --prior") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --llm") return ;;
    "suite --llm-model") return ;;
    "suite --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --llm-max-tokens") return ;;
    "suite --prompt") return ;;
    "suite --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "suite --llm-samples") return ;;
    "suite --llm-compare") mapfile -t COMPREPLY < <(compgen -W 'anchor both' -- "$cur"); return ;;
    "suite --llm-token-budget") return ;;
    "suite --replay-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --record-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --orchestrator") return ;;
    "suite --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "suite --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "suite --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "suite --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "token --role") mapfile -t COMPREPLY < <(compgen -W 'admin measure submit' -- "$cur"); return ;;
    "token --output" | "token -o") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "train --problems") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "train --output" | "train -o") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "train --seed") return ;;
    "train --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "up --listen") return ;;
    "up --log-level") mapfile -t COMPREPLY < <(compgen -W 'debug error info warning' -- "$cur"); return ;;
    "up --gpus") return ;;
    "up --drain-seconds") return ;;
    "up --otlp-endpoint") return ;;
    "up --trace-ratio") return ;;
    "up --gateway") return ;;
    "up --gateway-serve") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --forecaster") mapfile -t COMPREPLY < <(compgen -W 'embedded llm pool replay' -- "$cur"); return ;;
    "up --prior") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --llm") return ;;
    "up --llm-model") return ;;
    "up --llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --llm-max-tokens") return ;;
    "up --prompt") return ;;
    "up --prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "up --llm-samples") return ;;
    "up --llm-compare") mapfile -t COMPREPLY < <(compgen -W 'anchor both' -- "$cur"); return ;;
    "up --llm-token-budget") return ;;
    "up --replay-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --record-forecasts") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --generator-llm") return ;;
    "up --generator-llm-model") return ;;
    "up --generator-llm-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --generator-llm-config") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --generator-llm-max-tokens") return ;;
    "up --generator-prompt-directory") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "up --generator-patience-seconds") return ;;
    "up --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "up --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "up --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "up --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --device-price") return ;;
    "watch --input-token-price") return ;;
    "watch --cached-token-price") return ;;
    "watch --output-token-price") return ;;
    "watch --report") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --orchestrator") return ;;
    "watch --tls-ca") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --tls-certificate") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --tls-key") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --token-file") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --state-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "watch --service-dir") mapfile -t COMPREPLY < <(compgen -d -- "$cur"); return ;;
    "watch --replay") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
    "watch --python") mapfile -t COMPREPLY < <(compgen -f -- "$cur"); return ;;
  esac
  case $command in
    '') mapfile -t COMPREPLY < <(compgen -W 'best compare compile completion doctor eval evaluate export forecast lessons mcp measure problems report search searches stop suite token train up watch --help --version' -- "$cur") ;;
    best)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --device-model --output -o --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur")
      fi
      ;;
    compare)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --least-change --all --problem --target --baseline --task-rules-only --device-model --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    compile)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --candidates --target --worker --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python --reference --facts' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -d -W "$(kernelcast problems --names 2>/dev/null)" -- "$cur"; compgen -f -X '!*.py' -- "$cur")
      fi
      ;;
    completion)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W 'bash fish zsh' -- "$cur")
      fi
      ;;
    doctor)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --orchestrator --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --worker --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      fi
      ;;
    eval)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --format --bin-scheme --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --predictions --prompt --prompt-directory --llm-samples --service-dir --problem --by --unweighted --confidence --report --resamples --seed' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    evaluate)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --candidates --target --baseline --task-rules-only --mode --in-flight --device-model --search-id --forecaster --prior --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --prompt --prompt-directory --llm-samples --llm-compare --llm-token-budget --replay-forecasts --record-forecasts --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -d -W "$(kernelcast problems --names 2>/dev/null)" -- "$cur"; compgen -f -X '!*.py' -- "$cur")
      fi
      ;;
    export)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --all --sources --format --records --bin-scheme --pairs --per-bin --seed --prompts --rows --prompt --prompt-directory --problem --from-sequence --output -o --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur")
      fi
      ;;
    forecast)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --candidates --target --worker --forecaster --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python --prior --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --prompt --prompt-directory --llm-samples --llm-compare --llm-token-budget --replay-forecasts --record-forecasts --show-prompt' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -d -W "$(kernelcast problems --names 2>/dev/null)" -- "$cur"; compgen -f -X '!*.py' -- "$cur")
      fi
      ;;
    lessons)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --book --problem --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W 'learn list merge' -- "$cur")
      fi
      ;;
    mcp)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '' -- "$cur")
      fi
      ;;
    measure)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --candidates --target --worker --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python --baseline --task-rules-only --level --counters' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -d -W "$(kernelcast problems --names 2>/dev/null)" -- "$cur"; compgen -f -X '!*.py' -- "$cur")
      fi
      ;;
    problems)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --names' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    report)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --records --problem --output -o --device-price --input-token-price --cached-token-price --output-token-price --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur")
      fi
      ;;
    search)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --target --baseline --task-rules-only --budget-measurements --budget-candidates --budget-seconds --budget-device-seconds --policy --policy-parameter --strategy --strategy-parameter --seed --in-flight --generator --generator-requests --generator-tokens --generator-in-flight --critic --forecast-tokens --measure-everything --time-in-full --gate --lessons --learn --search-id --device-model --tree --archive --device-price --input-token-price --cached-token-price --output-token-price --report --no-report --forecaster --prior --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --prompt --prompt-directory --llm-samples --llm-compare --llm-token-budget --replay-forecasts --record-forecasts --generator-llm --generator-llm-model --generator-llm-key-file --generator-llm-config --generator-llm-max-tokens --generator-prompt-directory --generator-patience-seconds --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -d -W "$(kernelcast problems --names 2>/dev/null)" -- "$cur"; compgen -f -X '!*.py' -- "$cur")
      fi
      ;;
    searches)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --status --ids --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      fi
      ;;
    stop)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur")
      fi
      ;;
    suite)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --candidates --only --list --output -o --target --baseline --task-rules-only --mode --in-flight --device-model --forecaster --prior --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --prompt --prompt-directory --llm-samples --llm-compare --llm-token-budget --replay-forecasts --record-forecasts --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    token)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --role --output -o' -- "$cur")
      fi
      ;;
    train)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --problems --output -o --seed --service-dir' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      fi
      ;;
    up)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --listen --log-level --gpus --drain-seconds --otlp-endpoint --trace-ratio --accept-loss --gateway --gateway-serve --forecaster --prior --llm --llm-model --llm-key-file --llm-config --llm-max-tokens --prompt --prompt-directory --llm-samples --llm-compare --llm-token-budget --replay-forecasts --record-forecasts --generator-llm --generator-llm-model --generator-llm-key-file --generator-llm-config --generator-llm-max-tokens --generator-prompt-directory --generator-patience-seconds --state-dir --service-dir --replay --python' -- "$cur")
      fi
      ;;
    watch)
      if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W '--help -h --json --quiet -q --tree --archive --device-price --input-token-price --cached-token-price --output-token-price --report --no-report --orchestrator --tls-ca --tls-certificate --tls-key --token-file --state-dir --service-dir --replay --python' -- "$cur")
      else
        mapfile -t COMPREPLY < <(compgen -W "$(kernelcast searches --ids 2>/dev/null)" -- "$cur")
      fi
      ;;
  esac
}
complete -F _kernelcast kernelcast
