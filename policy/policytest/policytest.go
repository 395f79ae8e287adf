// Package policytest answers: are the gradients of an encoder of your own right? One call of Encoder
// checks them.
package policytest

import (
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/nntest"
)

// Encoder checks an encoder for observations of spec (policy.NewWithEncoder). It checks shapes, and compares gradients
// with central differences in float64.
func Encoder(t testing.TB, spec env.Spec, encoder nn.Layer) {
	t.Helper()
	sources, err := policy.Sources(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, err := nntest.Layer(encoder, sources)
	if err != nil {
		t.Fatalf("%v: %v", encoder, err)
	}
	if r.Checked == 0 {
		t.Errorf("%v: no parameters", encoder)
	}
}
