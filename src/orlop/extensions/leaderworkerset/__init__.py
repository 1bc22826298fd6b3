"""LeaderWorkerSets (leaderworkerset.x-k8s.io): groups of pods that live and die together."""
