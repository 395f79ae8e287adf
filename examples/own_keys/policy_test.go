package main

import (
	"testing"

	"github.com/rlinf/rlinf/policy/policytest"
)

// TestFeatures checks the shapes and the gradients of the layers.
func TestFeatures(t *testing.T) {
	policytest.Encoder(t, new(sail).Spec(), features(5))
}
