# Names that users can choose for a search. The first of each is the default. Policies are implemented in
# services/orchestrator/core/policy.cc, and the strategy NAME in NAME_strategy.cc of the same folder.
set(KERNELCAST_POLICIES threshold top_k risk)
set(KERNELCAST_STRATEGIES selection puct islands map_elites beam random measure_all)
