package roles

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
)

// checkOffPolicy checks what algorithms with a replay buffer need, and that others are not given
// what only those have; Validate returns what it finds.
func (j *job) checkOffPolicy() {
	c := j.cfg
	if !c.Trains() {
		return
	}
	loss := c.Algorithm.LossType
	c.offPolicy, c.offline = j.offPolicy, j.offline
	if path := c.Algorithm.OffPolicy.Demos.LoadPath; path != "" && !j.offPolicy && !j.offline {
		c.Problem("algorithm.demo_buffer.load_path", path, fmt.Sprintf("none (loss_type %s)", loss))
	}
	if j.offline {
		return // what policy it wants says Fits
	}
	if !j.offPolicy {
		if c.Actor.Model.AddQHead {
			c.Problem("actor.model.add_q_head", true, fmt.Sprintf("false (loss_type %s)", loss))
		}
		return
	}
	if model := c.Actor.Model.ModelType; model == "rnn_policy" {
		c.Problem("actor.model.model_type", model, fmt.Sprintf("mlp_policy (loss_type %s learns from single steps, "+
			"not from sequences)", loss))
	} else if !c.Actor.Model.AddQHead && !j.labelled {
		c.Problem("actor.model.add_q_head", false, fmt.Sprintf("true (loss_type %s)", loss))
	}
	if chunks := c.Actor.Model.NumActionChunks; j.labelled && chunks > 1 {
		c.Problem("actor.model.num_action_chunks", chunks, fmt.Sprintf("1 (loss_type %s: experts say what to do in a "+
			"state, not what after it)", loss))
	}
	if c.actionRewards() {
		c.Problem("algorithm.reward_type", c.Algorithm.RewardType, fmt.Sprintf("chunk_level (loss_type %s learns "+
			"from whole chunks)", loss))
	}
	if !c.Env.Train.AutoReset {
		c.Problem("env.train.auto_reset", false, fmt.Sprintf("true (loss_type %s)", loss))
	}
	off, heads := &c.Algorithm.OffPolicy, c.Actor.Model.NumQHeads
	c.check.Want(off.CriticSubsampleSize <= heads || heads < 1 || loss != "embodied_sac" && loss != "embodied_crossq",
		"algorithm.critic_subsample_size",
		off.CriticSubsampleSize, fmt.Sprintf("at most %d (actor.model.num_q_heads)", heads))
	c.check.Want(off.Demos.LoadPath == "" || c.Actor.MicroBatchSize%2 == 0, "actor.micro_batch_size",
		c.Actor.MicroBatchSize,
		"an even number (half of each batch is from demo_buffer)")
	c.Actor.CriticOptim.Check(func(ok bool, key string, value any, want string) {
		c.check.Want(ok, "actor.critic_optim."+key, value, want)
	})
}

// checkExpert checks that the environments have an expert, where it is to be learnt from.
func (j *job) checkExpert() {
	if !j.labelled {
		return
	}
	s, err := newShard(j.reg.Envs, j.cfg.Env.Train, env.Train, 0, 1, 1)
	if err == nil {
		s.label()
		err = errors.Join(s.begin(), s.vec.Close())
	}
	if err != nil {
		j.cfg.Problem("env.train.env_type", j.cfg.Env.Train.ID(), fmt.Sprintf("environments that have an expert "+
			"(loss_type %s): %v", j.cfg.Algorithm.LossType, err))
	}
}

// readDemos reads the demonstrations, where there are any; Validate returns what is wrong with
// them.
func (j *job) readDemos() {
	path := j.cfg.Algorithm.OffPolicy.Demos.LoadPath
	if path == "" || !j.offPolicy && !j.offline {
		return
	}
	var err error
	if j.demos, err = algo.ReadDemos(path, j.trajectoryFields(1)); err != nil {
		j.cfg.Problem("algorithm.demo_buffer.load_path", path, fmt.Sprintf("demonstrations in %s: %v", j.spec.Name,
			err))
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
