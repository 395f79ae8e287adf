// Package env is the contract of vectorised environments, with wrappers and episode metrics.
package env
