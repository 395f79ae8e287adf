package export_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/export"
	"github.com/rlinf/rlinf/tensor"
)

// A policy becomes C: a program calls policy_step with what it observes, and gets the action.
func ExampleTrainedPolicy_WriteC() {
	box := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-1}, High: []float32{1}}
	spec := env.Spec{Name: "Boat-v0", Obs: []env.Field{{Name: "wind", Space: box}}, Action: box}
	trained, err := policy.NewMLP(policy.DefaultConfig(), spec, 1, tensor.Heap)
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	boat := &export.TrainedPolicy{Policy: trained, Spec: spec, Env: env.DefaultConfig(), Task: spec.Name}
	files, err := boat.WriteC(dir)
	if err != nil {
		log.Fatal(err)
	}
	header, err := os.ReadFile(dir + "/policy.h")
	fmt.Println(strings.Join(files, " "))
	fmt.Println(strings.Contains(string(header), "obs_wind"), err)
	// Output:
	// policy.bin policy.c policy.f90 policy.h policy.json policy_test.json
	// true <nil>
}
