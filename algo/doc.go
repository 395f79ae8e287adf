// Package algo holds the update rules: advantages, losses, PPO and its family, optimisers.
package algo
