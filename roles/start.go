package roles

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/tensor"
)

// A beginning is what a run starts from: the state in a checkpoint, weights alone, or nothing.
type beginning struct {
	from  string // the checkpoint's folder, or the file of weights; "": nothing
	step  int64
	state state // of a file of weights the model alone
}

// rollouts returns how many rollouts of each environment have been learnt from.
func (b beginning) rollouts() int64 {
	return b.state.rollouts(b.step)
}

// mayChange are the keys that a resumed run may have changed.
var mayChange = [...]string{
	"runner.max_steps", "runner.max_epochs", "runner.max_time", "runner.val_check_interval", "runner.save_interval",
	"runner.keep_checkpoints", "runner.resume_dir", "runner.ckpt_path", "runner.logger", "cluster", "spmd", "comm",
	"env.eval",
	// How simulators are reached and for how long they are waited for, but not what they say of
	// themselves.
	"env.train.external.command", "env.train.external.n", "env.train.external.listen", "env.train.external.token_file",
	"env.train.external.shared_memory",
	"env.train.external.start_timeout", "env.train.external.step_timeout", "env.train.external.max_restarts",
}

// namedState reads the checkpoint in dir.
func namedState(j *job, yaml []byte, dir string) (beginning, error) {
	c, err := checkpoint.Load(dir)
	if err != nil {
		return beginning{}, err
	}
	return stateIn(j, yaml, c)
}

// resolve returns what a checkpoint's configuration means to this program.
func resolve(reg Registries, stored []byte) ([]byte, error) {
	c, err := ParseConfig(reg, stored)
	if err != nil {
		return nil, err
	}
	return c.Resolved(), nil
}

// stateIn reads c, and sees that it is of this job.
func stateIn(j *job, yaml []byte, c *checkpoint.Checkpoint) (b beginning, err error) {
	resolved := func(stored []byte) ([]byte, error) { return resolve(j.reg, stored) }
	if err := c.CheckConfig(yaml, resolved, mayChange[:]...); err != nil {
		return b, err
	}
	b = beginning{from: c.Dir, step: c.Step}
	files := map[string]*tensor.Dict{modelFile: &b.state.model, trainerFile: &b.state.trainer, envFile: &b.state.envs}
	if !j.syncsAt(c.Step) {
		files[rolloutFile] = &b.state.rollout
	}
	for file, d := range files {
		if *d, err = readFile(c, file); err != nil {
			return b, err
		}
	}
	return b, b.fits(j)
}

// weightsIn reads a file of weights, runner.ckpt_path.
func weightsIn(j *job, path string) (b beginning, err error) {
	b.from = path
	if b.state.model, err = readWeights("runner.ckpt_path", path); err != nil {
		return b, err
	}
	return b, b.fits(j)
}

// fits sees that the model in b is one of this job's policy.
func (b beginning) fits(j *job) error {
	pol, err := j.newPolicy(tensor.Heap)
	if err == nil {
		err = loadModel(pol.Params(), b.state.model)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", b.from, err)
	}
	return err
}
