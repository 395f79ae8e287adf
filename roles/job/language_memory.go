package job

// tuningMemory returns the memory that rank r needs to train a language model.
func (j *Job) tuningMemory(r int) (f Footprint) {
	t := j.Tuning
	sequences := t.Limit.Sequences
	if sequences == 0 {
		sequences = t.batch * max(t.group, 1)
	}
	trained, frozen := 4*int64(t.Trained), int64(0)
	if t.LoRA != nil {
		frozen = 4 * int64(t.Count) // without a gradient
	}
	trunk := 4 * int64(t.Count)
	work := int64(t.Model.TrainingBytes(t.Limit.Tokens, sequences, t.LoRA))
	for range j.MembersOn("actor", r) {
		f.Parameters += 2*trained + frozen
		f.Optimiser += 2 * trained // Adam's two moments
		f.Activations += work
	}
	if j.HasCritic() {
		of := "actor"
		if j.Critics > 0 {
			of = "critic"
		}
		for range j.MembersOn(of, r) {
			f.Parameters, f.Optimiser, f.Activations = f.Parameters+2*trunk, f.Optimiser+2*trunk, f.Activations+work
		}
	}
	if j.NeedsReference() {
		of := "actor"
		if j.Inferences > 0 {
			of = "inference"
		}
		for range j.MembersOn(of, r) {
			f.Activations += work
			if t.LoRA == nil {
				f.Parameters += trunk
			}
		}
	}
	for range j.MembersOn("inference", r) {
		if j.Config.Algorithm.RecomputeLogprobs {
			f.Activations += work
		}
		if !j.On("actor", r) {
			f.Parameters += trained + frozen
		}
	}
	for range j.MembersOn("rollout", r) {
		f.Activations += t.engineBytes()
		if !j.On("actor", r) {
			f.Parameters += trained + frozen
		}
	}
	for _, of := range textHops {
		for range j.MembersOn(of, r) {
			f.Channels += 3 * int64(t.AnswerBytes())
		}
	}
	f.Texts = int64(t.Train.Bytes())
	if t.Valid != nil {
		f.Texts += int64(t.Valid.Bytes())
	}
	return f
}

// MembersOn returns the members of a component on a rank; none of one without a place.
func (j *Job) MembersOn(component string, rank int) (members []int) {
	for m, at := range j.Placement.Ranks(component) {
		if at == rank {
			members = append(members, m)
		}
	}
	return members
}
