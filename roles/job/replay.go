package job

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// readDemos reads the demonstrations, if there are any and nothing else is wrong.
func (d *draft) readDemos() {
	path := d.Config.Algorithm.OffPolicy.Demos.LoadPath
	if path == "" || !d.OffPolicy && !d.Offline || d.found.Err() != nil {
		return
	}
	var err error
	if d.demos, err = algo.ReadDemos(path, d.demoFields()); err != nil {
		d.problem("algorithm.demo_buffer.load_path", path, fmt.Sprintf("demonstrations in %s: %v%s",
			d.Spec.Name, err, demosBy(path, err)))
	}
}

// demoFields are those of demonstrations, as of rollouts of one environment.
func (j *Job) demoFields() []tensor.Field {
	return j.Config.Algorithm.DemoFields(j.trajectoryFields(1))
}

// replayBytes returns the memory of one actor's replay buffer of so many iterations, at most the
// largest int; 0 without one.
func (j *Job) replayBytes(iterations int) int {
	if !j.OffPolicy {
		return 0
	}
	return config.Product(algo.TransitionBytes(j.trajectoryFields(1)), j.Train.Envs/j.Actors, j.Epochs, j.Steps,
		iterations)
}

// demoBytes returns the memory of one copy of the demonstrations. Every rank reads one, and every
// actor has another to draw from.
func (j *Job) demoBytes() int {
	if j.demos.Len() == 0 {
		return 0
	}
	return config.Product(algo.TransitionBytes(j.demoFields()), j.demos.Must("reward").Dim(0))
}

// CheckReplay returns an error if the replay buffers and demonstrations of the actors on this
// rank's node do not fit into its memory. The result differs from node to node.
func (j *Job) CheckReplay(nodes []int, rank int) error {
	if !j.Config.Trains() {
		return nil
	}
	actors := 0
	for _, r := range j.Placement.Ranks("actor") {
		if nodes[r] == nodes[rank] {
			actors++
		}
	}
	return j.fitReplay(actors, AvailableOn(nodes, nodes[rank]))
}

// fitReplay is CheckReplay for so many actors in that memory.
func (j *Job) fitReplay(actors int, have Available) error {
	window := j.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize
	buffers, demos := config.Product(actors, j.replayBytes(window)), config.Product(actors, j.demoBytes())
	switch left := have.Free - int64(demos); {
	case left < 0:
		return fmt.Errorf("algorithm.demo_buffer.load_path: %s: expected a smaller file: the copies that the actors "+
			"of a node draw from take %s, and %v",
			j.Config.Algorithm.OffPolicy.Demos.LoadPath, Mebibytes(int64(demos)), have)
	case int64(buffers) > left:
		beside := ""
		if demos > 0 {
			beside = fmt.Sprintf(" beside demonstrations of %s", Mebibytes(int64(demos)))
		}
		return fmt.Errorf("algorithm.replay_buffer.sample_window_size: %d: expected at most %d: the replay buffers "+
			"of a node take %s%s, and %v",
			window, left/int64(config.Product(actors, j.replayBytes(1))), Mebibytes(int64(buffers)), beside, have)
	}
	return nil
}
