package roles

import "github.com/rlinf/rlinf/tensor"

// inferred returns the tensors that inference workers add to trajectories.
func (j *job) inferred() (names []string) {
	if j.inferences == 0 {
		return nil
	}
	return j.cfg.inferred(j.learning)
}

// inferredFields are those tensors, for trajectories of n environments.
func (j *job) inferredFields(n int) (fs []tensor.Field) {
	for _, name := range j.inferred() {
		fs = append(fs, tensor.Field{Name: name, DType: tensor.F32, Shape: []int{j.epochs * j.steps, n, j.logProbs}})
	}
	return fs
}

// inferenceWorker returns the inference worker that s goes through.
func (j *job) inferenceWorker(s segment) int { return s.lo * j.inferences / j.train.envs }

// nextOf returns the member that a rollout worker sends s to: an inference worker where there are
// some, else the actor.
func (j *job) nextOf(s segment) int {
	if j.inferences > 0 {
		return j.inferenceWorker(s)
	}
	return s.actor
}

// inferencePairs returns who sends trajectories to inference workers, and to whom these send them,
// as pairs of producer and consumer.
func (j *job) inferencePairs() (in, out map[[2]int]bool) {
	in, out = map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range j.train.lanes {
		for _, s := range l.segments {
			w := j.inferenceWorker(s)
			in[[2]int{l.rollout, w}] = true
			out[[2]int{w, s.actor}] = true
		}
	}
	return in, out
}
