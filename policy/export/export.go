package export

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
)

// A TrainedPolicy is a trained policy, and the environment for which it was trained.
type TrainedPolicy struct {
	policy.Policy
	Spec  env.Spec   // of the simulator, before the wrappers of Env
	Env   env.Config // configures the wrappers: StateElements, FrameStack, ActionRepeat
	Task  string     // name of the task
	Run   string     // folder of the run or of the checkpoint
	Step  int64      // training steps so far
	Build string     // the program that wrote the export
	// NoValue leaves out the critic's value, because training has not changed the critic.
	NoValue bool
	// ValueScale multiplies the critic's value. It is the number by which training divided rewards; 0 means 1.
	ValueScale float64
	// ValueNote says what the critic's value is. "" means the discounted return of the rewards in training.
	ValueNote string
	// Notes explain inputs and outputs. The keys are their names.
	Notes map[string]string
	// Sample makes the export draw actions from the policy's distribution, with random numbers as an input. If it is
	// false, the export takes the most likely action.
	Sample bool
}

// graph returns the tree of the policy, or an error if the policy has none.
func (p *TrainedPolicy) graph() (graph.Node, error) {
	d, ok := p.Policy.(policy.Described)
	if !ok {
		return graph.Node{}, fmt.Errorf("export: a policy of type %T does not describe its layers: "+
			"expected a policy.Described", p.Policy)
	}
	return d.Graph(), nil
}

// WriteONNX writes policy.onnx, policy.json and policy_test.json to dir, which must exist.
// It returns the names of the files.
func (p *TrainedPolicy) WriteONNX(dir string) ([]string, error) {
	x, d, err := p.prepare()
	if err != nil {
		return nil, err
	}
	return p.write(dir, d, map[string][]byte{"policy.onnx": x.onnx(d)})
}

// WriteC writes policy.h, policy.c, policy.f90, policy.bin, policy.json and policy_test.json to dir, which must exist.
// It returns the names of the files.
func (p *TrainedPolicy) WriteC(dir string) ([]string, error) {
	x, d, err := p.prepare()
	if err != nil {
		return nil, err
	}
	return p.write(dir, d, x.c(d))
}

func (p *TrainedPolicy) prepare() (*program, *Manifest, error) {
	x, err := lower(p)
	if err != nil {
		return nil, nil, err
	}
	d, err := x.describe(p)
	return x, d, err
}

// write writes the files, the description and the test vector. A failure leaves no files.
func (p *TrainedPolicy) write(dir string, d *Manifest, files map[string][]byte) ([]string, error) {
	v, err := p.testVector(vectorSteps)
	if err != nil {
		return nil, err
	}
	about, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return nil, fmt.Errorf("export: policy.json: %w", err)
	}
	vector, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("export: policy_test.json: %w", err)
	}
	files["policy.json"], files["policy_test.json"] = append(about, '\n'), append(vector, '\n')
	names := slices.Sorted(maps.Keys(files))
	for i, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), files[name], 0o644); err != nil {
			for _, written := range names[:i+1] {
				os.Remove(filepath.Join(dir, written))
			}
			return nil, err
		}
	}
	return names, nil
}
