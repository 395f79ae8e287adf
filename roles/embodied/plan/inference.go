package plan

// Inferred returns the names of the tensors that inference workers add to trajectories. It returns nil without
// inference workers.
func (p *Plan) Inferred() (names []string) {
	if p.Inferences == 0 {
		return nil
	}
	return p.Config.Inferred(p.Learning)
}

// InferenceWorker returns the index of the inference worker that receives the shard s.
func (p *Plan) InferenceWorker(s ActorShard) int { return s.Lo * p.Inferences / p.Train.Envs }

// NextOf returns the number of the worker to which a rollout worker sends the shard s: an inference worker if there is
// one, else the actor.
func (p *Plan) NextOf(s ActorShard) int {
	if p.Inferences > 0 {
		return p.InferenceWorker(s)
	}
	return s.Actor
}

// InferencePairs returns the pairs (sender, receiver) that exchange trajectories: first rollout and inference workers,
// then inference workers and actors.
func (p *Plan) InferencePairs() (in, out map[[2]int]bool) {
	in, out = map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range p.Train.Routes {
		for _, s := range l.Shards {
			w := p.InferenceWorker(s)
			in[[2]int{l.Rollout, w}] = true
			out[[2]int{w, s.Actor}] = true
		}
	}
	return in, out
}
