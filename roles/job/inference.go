package job

import "github.com/rlinf/rlinf/tensor"

// Inferred returns the tensors that inference workers add to trajectories.
func (j *Job) Inferred() (names []string) {
	if j.Inferences == 0 {
		return nil
	}
	return j.Config.Inferred(j.Learning)
}

// inferredFields are those tensors, for trajectories of n environments.
func (j *Job) inferredFields(n int) (fs []tensor.Field) {
	for _, name := range j.Inferred() {
		fs = append(fs, tensor.Field{Name: name, DType: tensor.F32, Shape: []int{j.Epochs * j.Steps, n, j.logProbs}})
	}
	return fs
}

// InferenceWorker returns the inference worker of s.
func (j *Job) InferenceWorker(s ActorShard) int { return s.Lo * j.Inferences / j.Train.Envs }

// NextOf returns the member that a rollout worker sends s to: an inference worker if there are any,
// else the actor.
func (j *Job) NextOf(s ActorShard) int {
	if j.Inferences > 0 {
		return j.InferenceWorker(s)
	}
	return s.Actor
}

// InferencePairs returns the pairs of producer and consumer before (in) and after (out) inference
// workers.
func (j *Job) InferencePairs() (in, out map[[2]int]bool) {
	in, out = map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range j.Train.Routes {
		for _, s := range l.Shards {
			w := j.InferenceWorker(s)
			in[[2]int{l.Rollout, w}] = true
			out[[2]int{w, s.Actor}] = true
		}
	}
	return in, out
}
