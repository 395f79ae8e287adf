package roles

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
)

// readDemos reads the demonstrations, where there are any, once nothing else is wrong.
func (d *draft) readDemos() {
	path := d.cfg.Algorithm.OffPolicy.Demos.LoadPath
	if path == "" || !d.offPolicy && !d.offline || d.found.Err() != nil {
		return
	}
	var err error
	if d.demos, err = algo.ReadDemos(path, d.trajectoryFields(1)); err != nil {
		d.problem("algorithm.demo_buffer.load_path", path, fmt.Sprintf("demonstrations in %s: %v", d.spec.Name, err))
	}
}

// replayBytes returns the memory of one actor's replay buffer of so many iterations, up to the
// largest int; 0 where there is none.
func (j *job) replayBytes(iterations int) int {
	if !j.offPolicy {
		return 0
	}
	return product(algo.TransitionBytes(j.trajectoryFields(1)), j.train.envs/j.actors, j.epochs, j.steps, iterations)
}

// demoBytes returns the memory of one copy of the demonstrations: every rank has read one, and
// every actor draws from another.
func (j *job) demoBytes() int {
	if j.demos.Len() == 0 {
		return 0
	}
	return product(algo.TransitionBytes(j.trajectoryFields(1)), j.demos.Must("reward").Dim(0))
}

// checkReplay returns an error where what the actors on this rank's node are to draw from does not
// fit into the memory that this node still has. What it finds differs from node to node.
func (j *job) checkReplay(nodes []int, rank int) error {
	actors := 0
	for _, r := range j.place.Group("actor").Ranks {
		if nodes[r] == nodes[rank] {
			actors++
		}
	}
	return j.fitReplay(actors, roomOn(nodes, nodes[rank]))
}

// fitReplay is checkReplay for so many actors in that room.
func (j *job) fitReplay(actors int, have room) error {
	window := j.cfg.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize
	buffers, demos := product(actors, j.replayBytes(window)), product(actors, j.demoBytes())
	switch left := have.free - int64(demos); {
	case left < 0:
		return fmt.Errorf("algorithm.demo_buffer.load_path: %s: want a smaller file: the copies that the actors of a "+
			"node draw from take %s, and %v",
			j.cfg.Algorithm.OffPolicy.Demos.LoadPath, mebibytes(int64(demos)), have)
	case int64(buffers) > left:
		beside := ""
		if demos > 0 {
			beside = fmt.Sprintf(" beside demonstrations of %s", mebibytes(int64(demos)))
		}
		return fmt.Errorf("algorithm.replay_buffer.sample_window_size: %d: want at most %d: the replay buffers of a "+
			"node take %s%s, and %v",
			window, left/int64(product(actors, j.replayBytes(1))), mebibytes(int64(buffers)), beside, have)
	}
	return nil
}
