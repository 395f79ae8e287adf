package plan

import (
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/mesh"
)

// PassCost returns the number of weights that a token uses in a pass through the model. The time of a pass is about
// proportional to this number.
func (p *Plan) PassCost() (sum float64) {
	for _, c := range layerCosts(&p.Model) {
		sum += float64(c)
	}
	return sum
}

// Shallow returns the plan of a job whose model has only this many layers. Every member has the whole shallow model,
// with random weights. The costs of a model that does not fit into memory are estimated with shallow models.
func (p *Plan) Shallow(layers int) (*Plan, error) {
	s, cfg := *p, *p.Config
	cfg.Runner.CkptPath = ""
	s.Job = &job.Job{Config: &cfg, Registries: p.Registries, Placement: p.Placement, SyncInterval: p.SyncInterval,
		MaxSteps: p.MaxSteps}
	s.Base, s.From, s.BaseWeights = "", "", BaseWeights{}
	s.Model.Layers, s.meshes = layers, map[string]mesh.Mesh{}
	m, err := s.New()
	if err != nil {
		return nil, err
	}
	s.Count, s.Trained = m.Count(), m.Params.Len()
	return &s, nil
}
