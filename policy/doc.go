// Package policy holds the networks that act: they choose actions, say how probable actions were, and estimate values.
package policy
