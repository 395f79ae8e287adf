package runner

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/tensor"
)

// A StartState is the state that a run starts from: a checkpoint, weights alone, or nothing.
type StartState struct {
	From string // the checkpoint's folder, or the file of weights; "": nothing
	Step int64  // iterations done
	// Rescheduled says which schedule is another than in the run that the state is from; "": none.
	Rescheduled string
	state       worker.State // of a file of weights the model alone
}

// rollouts returns how many rollouts of each environment the actors have learnt from.
func (b StartState) rollouts() int64 {
	return b.state.Rollouts(b.Step)
}

// resumableKeys are the keys that may differ in any resumed run.
var resumableKeys = [...]string{
	"runner.max_steps", "runner.max_epochs", "runner.max_time", "runner.val_check_interval", "runner.save_interval",
	"runner.save_at_end", "runner.keep_checkpoints", "runner.resume_dir", "runner.ckpt_path", "runner.logger",
	"runner.early_stop", "actor.threads", "rollout.threads", "rollout.max_running_requests", "cluster", "spmd", "comm",
	"env.eval", "data.val_data_paths",
	"rollout.pipeline_stage_num",
	// How simulators are reached, and the timeouts, but not their specification.
	"env.train.external.command", "env.train.external.n", "env.train.external.listen", "env.train.external.token_file",
	"env.train.external.shared_memory",
	"env.train.external.start_timeout", "env.train.external.step_timeout", "env.train.external.max_restarts",
	"env.train.external.max_same_errors", "env.train.external.max_lost_share",
}

// textKeys are further keys that may differ where a language model is trained: they change no number.
var textKeys = [...]string{
	"rollout.return_logprobs", "rollout.eval_sampling_params", "reward.program",
}

// microKeys are those that change none but of a mixture of experts, whose experts see a micro-batch.
var microKeys = [...]string{
	"actor.micro_batch_size", "runner.enable_dynamic_batch_size", "runner.max_tokens_per_mbs",
}

// mayDiffer returns the keys that may differ in a resumed run of j.
func mayDiffer(j *job.Job) []string {
	keys := slices.Clone(resumableKeys[:])
	if j.Tuning == nil {
		return keys
	}
	keys = append(keys, textKeys[:]...)
	if j.Tuning.Model.Experts.Count == 0 {
		keys = append(keys, microKeys[:]...)
	}
	return keys
}

// NamedState reads the checkpoint in dir.
func NamedState(j *job.Job, yaml []byte, dir string) (StartState, error) {
	c, err := checkpoint.Load(dir)
	if err != nil {
		return StartState{}, err
	}
	return StateIn(j, yaml, c)
}

// resolve returns the configuration of a checkpoint as this program resolves it.
func resolve(reg config.Registries, stored []byte) ([]byte, error) {
	c, err := config.Parse(reg, stored)
	if err != nil {
		return nil, err
	}
	return c.Resolved(), nil
}

// StateIn reads c, and checks that it is of this job.
func StateIn(j *job.Job, yaml []byte, c *checkpoint.Checkpoint) (b StartState, err error) {
	var then *config.Config
	resolved := func(stored []byte) ([]byte, error) {
		then, _ = config.Parse(j.Registries, stored) // what is wrong with it, resolve returns
		return resolve(j.Registries, stored)
	}
	if err := c.CheckConfig(yaml, resolved, mayDiffer(j)...); err != nil {
		return b, err
	}
	b = StartState{From: c.Dir, Step: c.Step, Rescheduled: rescheduled(then, j.Config)}
	files := map[string]*tensor.Dict{ModelFile: &b.state.Model, trainerFile: &b.state.Trainer}
	if j.Tuning == nil {
		files[envFile] = &b.state.Envs
	}
	if !j.SyncsAt(c.Step) {
		files[rolloutFile] = &b.state.Rollout
	}
	for file, d := range files {
		if *d, err = ReadTensors(c, file); err != nil {
			return b, err
		}
	}
	return b, b.fits(j)
}

// rescheduled says which schedule follows from the length of the run, if that is another now than it was
// then, and how to keep it. A nil then has the same.
func rescheduled(then, now *config.Config) string {
	if then == nil || then.Runner.Iterations() == now.Runner.Iterations() {
		return ""
	}
	for _, o := range []struct {
		key   string
		optim algo.OptimConfig
	}{{"actor.optim", now.Actor.Optim}, {"actor.critic_optim", now.Actor.CriticOptim},
		{"algorithm.entropy_tuning.optim", now.Algorithm.OffPolicy.EntropyTuning.Optim}} {
		if o.optim.LRScheduler != algo.ScheduleConstant && o.optim.TotalTrainingSteps <= 0 {
			return fmt.Sprintf("%s.lr_scheduler %s: the run is to end elsewhere than before, and so is the schedule: "+
				"the learning rate may jump here; %[1]s.total_training_steps fixes its end", o.key,
				o.optim.LRScheduler)
		}
	}
	if s := now.Algorithm.ClipRatioSchedule; s != algo.ScheduleConstant {
		return fmt.Sprintf("algorithm.clip_ratio_schedule %s: the run is to end elsewhere than before, and so is the "+
			"schedule: the clip range may jump here; actor.optim.total_training_steps fixes its end", s)
	}
	return ""
}

// WeightsIn reads a file of weights, runner.ckpt_path.
func WeightsIn(j *job.Job, path string) (b StartState, err error) {
	b.From = path
	if j.Tuning != nil && j.Tuning.Below.Path == path {
		return b, nil // its adapters are new
	}
	if b.state.Model, err = job.ReadWeights("runner.ckpt_path", path); err != nil {
		return b, err
	}
	return b, b.fits(j)
}

// fits checks that the model in b is one of this job's policy.
func (b StartState) fits(j *job.Job) error {
	var err error
	if j.Tuning != nil {
		err = errors.Join(j.Tuning.Fits(b.state.Model), j.Tuning.SameInputs(b.state.Trainer))
	} else if pol, e := j.NewPolicy(tensor.Heap); e != nil {
		err = e
	} else {
		err = job.LoadModel(pol.Params(), b.state.Model)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", b.From, err)
	}
	return err
}
