package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// tryParts makes the environments, the policy and the reward, to check that they fit together and into the memory. It
// also reads the demonstrations. It skips parts whose keys have mistakes.
func (d *Draft) tryParts() {
	if d.probe() {
		d.tryPolicy()
		d.tryReward()
		d.checkHindsight()
	}
	if d.Placement != nil {
		d.checkOutside()
	}
	d.readDemos()
}

// probe makes one environment of training and one of evaluations to get their specs. It reports whether the policy's
// spec is known. This is the spec of training, but in a job that does not train it is the spec of evaluations.
func (d *Draft) probe() (known bool) {
	c := d.Config
	if c.Trains() && d.usable("env.train") {
		var err error
		if d.Spec, err = d.Registries.Probe(c.Env.Train); err != nil {
			d.cannotMake("env.train", &c.Env.Train, err)
			return false
		}
		if known = d.fitObservations(); !known {
			return false
		}
	}
	if !c.Evaluates() || !d.usable("env.eval") || d.found.Reported("env.eval.total_num_envs") {
		return known
	}
	var err error
	if d.EvalEnv, d.EvalSpec, err = d.Registries.EvalEnv(c); err != nil {
		d.cannotMake("env.eval", &c.Env.Eval, err)
	} else if !c.Trains() {
		d.Spec = d.EvalSpec
		return d.fitObservations()
	}
	return known
}

// cannotMake reports err, because the environments of a section cannot be made. If err names keys, the mistakes are in
// these keys. Otherwise the mistake is in the command of an external simulator, or in env_type.
func (d *Draft) cannotMake(section string, e *env.Config, err error) {
	if d.blamed(section, err) {
		return
	}
	if command := e.External.Command; e.ID() == env.ExternalID && len(command) > 0 {
		d.found.Problem(section+".external.command", strings.Join(command, " "),
			"a simulator that starts: "+err.Error())
		return
	}
	d.found.Problem(section+".env_type", e.ID(), "environments that can be made: "+err.Error())
}

// blamed reports the mistakes that err names in keys of a section. It returns false if err names no key.
func (d *Draft) blamed(section string, err error) bool {
	var keys env.KeyErrors
	errors.As(err, &keys)
	for _, k := range keys {
		d.found.Problem(section+"."+k.Key, nil, "a value that fits: "+k.Reason)
	}
	return len(keys) > 0
}

// fitObservations sets the number of log-probs, and reports whether the observations of d.Spec fit into the memory.
func (d *Draft) fitObservations() bool {
	chunks := d.Config.Actor.Model.NumActionChunks
	if chunks <= 0 {
		return true // the mistake is reported
	}
	d.logProbs = map[string]int{algo.ChunkLevel: 1, algo.ActionLevel: chunks,
		algo.TokenLevel: chunks * d.Spec.Action.Dim()}[d.Config.Algorithm.LogProbType]
	return d.checkObservations(d.nodes[len(d.nodes)-1]+1, job.AvailableOn(d.nodes, 0))
}

// usable reports whether the keys of a section have no mistakes, so that an environment can be made. It ignores
// mistakes in the numbers of environments and steps.
func (d *Draft) usable(section string) bool {
	e := &d.Config.Env.Train
	if section == "env.eval" {
		e = &d.Config.Env.Eval
	}
	if e.ID() == env.ExternalID && !d.asks {
		return false
	}
	counts := []string{"total_num_envs", "rollout_epoch", "max_steps_per_rollout_epoch"}
	if section == "env.eval" && d.found.ReportedBeside("env.train", counts...) {
		return false // evaluations inherit these keys
	}
	return !d.found.ReportedBeside(section, counts...) && !d.found.Reported("algorithm.group_size")
}

// tryPolicy makes the policy without initial parameters, to check that it fits the environments, the algorithm and the
// memory.
func (d *Draft) tryPolicy() {
	c := d.Config
	if d.found.Reported("actor.model", "algorithm.logprob_type", "algorithm.reward_type") {
		return
	}
	memory := job.Reserve{Have: job.AvailableOn(d.nodes, 0)}
	defer memory.Free()
	pol, err := d.NewBlankPolicy(memory.Alloc)
	if files, ok := pol.(policy.FileChecker); err == nil && ok {
		if err = files.CheckFiles(); errors.Is(err, fs.ErrNotExist) && policy.Kept(pol) != nil {
			err = nil // loop.CheckPaths reports it
		}
	}
	if errors.As(err, new(job.Shortage)) {
		d.found.Problem("actor.model.hidden_sizes", c.Actor.Model.HiddenSizes, "a smaller policy: "+err.Error())
		return
	} else if d.blamed("actor.model", err) {
		return
	} else if err != nil {
		d.found.Problem("actor.model.model_type", c.Actor.Model.ModelType, "a policy that fits: "+err.Error())
		return
	}
	if c.Trains() && !d.found.Reported("algorithm.adv_type", "algorithm.loss_type") {
		if err := d.Registries.Algorithms.Fits(c.Algorithm.Config, pol); err != nil {
			d.found.Problem("algorithm.loss_type", c.Algorithm.LossType,
				fmt.Sprintf("an algorithm for %s: this one needs %v", d.Spec.Name, err))
			return
		}
	}
	learns := c.Trains() && (d.OffPolicy || d.Offline)
	d.found.Want(!learns || !c.Actor.EnableDrQ || len(policy.Cameras(pol)) > 0, "actor.enable_drq", true,
		"false: the policy sees no images (cnn_policy does)")
	if soft, ok := pol.(*policy.SoftActor); ok {
		d.encodes = soft.Encoder() != nil
	}
	if d.frozenBytes = policy.FrozenBytes(pol); d.frozenBytes > 0 && learns && !c.Actor.EnableDrQ {
		d.kept = policy.Kept(pol)
	}
	d.hiddenLen, d.latentLen, d.paramBytes = policy.HiddenLen(pol), policy.LatentLen(pol), 4*len(pol.Params().Data)
	if d.learnerBytes = 2 * d.paramBytes; learns && d.found.Err() == nil { // the two moments of Adam
		d.learnerBytes = d.measureLearner(pol)
	}
	d.checkSequences()
	d.checkDevice(pol)
}

// measureLearner returns the bytes that an algorithm with a replay buffer takes beside the buffer and the parameters of
// pol. It makes the algorithm for two samples at a time, and a buffer of one iteration of one environment.
func (d *Draft) measureLearner(pol policy.Policy) int {
	memory := job.Reserve{Have: job.AvailableOn(d.nodes, 0)}
	defer memory.Free()
	s := d.setup(algo.Setup{Policy: pol, Alloc: memory.Alloc})
	s.GlobalBatch, s.MicroBatch = 2, 2
	d.leastReplay(&s)
	held, stacks := s.Config.ReplaySteps(s.Steps), algo.StacksOf(d)
	if d.Offline {
		held, stacks = 1, nil
		for _, f := range d.demoFields() {
			s.Demos.Set(f.Name, tensor.New(f.DType, append([]int{held}, f.Shape[2:]...)...))
		}
	}
	d.Registries.Algorithms.New(s) // if it cannot be made, what it has taken so far counts
	return max(2*d.paramBytes, int(memory.Need())-algo.ReplayBytes(s.Rollout, stacks, 1, held))
}

// leastReplay gives s a replay buffer of one iteration of one environment.
func (p *Plan) leastReplay(s *algo.Setup) {
	s.Envs, s.Rollout = 1, p.trajectoryFields(1)
	s.Config.OffPolicy.ReplayBuffer.SampleWindowSize, s.Config.OffPolicy.ReplayBuffer.MinBufferSize = 1, 1
}

// checkSequences checks that a recurrent policy can be trained on sequences.
func (d *Draft) checkSequences() {
	c := d.Config
	if !c.Trains() {
		return
	}
	length, model := c.Algorithm.SequenceLength, c.Actor.Model.ModelType
	if d.hiddenLen == 0 {
		d.found.Want(length == 0, "algorithm.sequence_length", length, "0 (model_type "+model+" remembers nothing)")
		return
	}
	d.found.Want(!c.ActionRewards(), "algorithm.reward_type", c.Algorithm.RewardType, "chunk_level (model_type "+model+
		" remembers from chunk to chunk)")
	_, steps := d.knownSamples()
	if steps <= 0 || length < 0 {
		return // the mistake is reported
	}
	length = cmp.Or(length, steps)
	if steps%length != 0 {
		d.found.Problem("algorithm.sequence_length", length,
			fmt.Sprintf("a divisor of %d (steps of an iteration)", steps))
		return
	}
	micro := c.Actor.MicroBatchSize
	d.found.Want(micro%length == 0, "actor.micro_batch_size", micro,
		fmt.Sprintf("a multiple of %d (steps of a sequence)", length))
}

// checkOutside checks that the environments of each rank can be divided among its external simulators, and that the
// program of a robot is started once.
func (d *Draft) checkOutside() {
	for _, u := range config.ExternalUses(d.Config, d.Placement.Ranks("env")) {
		if u.Env.External.Greeting == "" {
			continue // the simulators are asked when they start
		}
		key, of := strings.TrimSuffix(u.Key, "external")+"total_num_envs", u.Env.External
		n, err := external.Children(of, u.Env.TotalNumEnvs/u.Vecs)
		if err != nil {
			d.found.Problem(key, u.Env.TotalNumEnvs,
				"as many on each rank (and stage) as its children can play: "+err.Error())
		} else if n *= u.Vecs; n > 1 && external.IsRobot(of) && len(of.Command) > 0 {
			d.found.Problem(key, u.Env.TotalNumEnvs,
				fmt.Sprintf("a number that one program plays: %d would move one robot", n))
		}
	}
}

// checkExpert checks that the environments have an expert, if the algorithm learns from an expert or a scripted person
// acts. It skips environments that could not be made.
func (d *Draft) checkExpert() {
	needs := fmt.Sprintf("loss_type %s", d.Config.Algorithm.LossType)
	if d.Config.Env.Train.Person.Share > 0 {
		needs = "env.train.person.share"
	} else if !d.Labelled {
		return
	}
	if d.Spec.Name == "" || !d.Config.Trains() {
		return
	}
	if e := &d.Config.Env.Train; e.External.Greeting != "" {
		d.found.Want(external.HasExpert(e.External), "env.train.external", d.Spec.Name,
			fmt.Sprintf("a simulator with an expert (%s): docs/experience.md", needs))
		return
	}
	s, err := play.NewStage(d.Registries.Envs, d.Config.Env.Train, env.Train, 0, 1, 1)
	if err == nil {
		s.Label()
		err = errors.Join(s.Begin(), s.Vec.Close())
	}
	d.found.Want(err == nil, "env.train.env_type", d.Config.Env.Train.ID(),
		fmt.Sprintf("environments that have an expert (%s): %v", needs, err))
}

// checkInterventions checks that chunks have one action if a person may act in place of the policy and actions are
// choices. An action mask holds for a whole chunk, so nobody can choose a part of it. Chunks must also have one action
// if env.train.person acts.
func (d *Draft) checkInterventions() {
	d.found.Want(!d.Spec.Intervene || d.Spec.Action.Kind == env.Box || d.Chunks == 1, "actor.model.num_action_chunks",
		d.Chunks, fmt.Sprintf("1: a person may act in %s, whose actions are choices", d.Spec.Name))
	d.found.Want(d.Config.Env.Train.Person.Share <= 0 || d.Chunks <= 1, "actor.model.num_action_chunks", d.Chunks,
		"1: env.train.person acts in single steps")
	if demos := &d.Config.Algorithm.OffPolicy.Demos; d.OffPolicy && d.Spec.Name != "" && !d.Spec.Intervene &&
		demos.SampleWindowSize > 0 {
		d.notes = append(d.notes, fmt.Sprintf("algorithm.demo_buffer.sample_window_size: no effect, because nobody "+
			"acts in place of the policy in %s", d.Spec.Name))
	}
}

// checkRobot checks that there are no evaluations on a robot that training holds.
func (d *Draft) checkRobot() {
	train, eval := &d.Config.Env.Train.External, &d.Config.Env.Eval.External
	d.found.Want(!d.Config.Trains() || !d.Config.Evaluates() || !external.IsRobot(*train) || !train.Same(*eval),
		"runner.val_check_interval", d.Config.Runner.ValCheckInterval,
		fmt.Sprintf("-1: the training holds the robot %s; rlinf eval evaluates it afterwards", d.Spec.Name))
}

// checkVideo checks that the environments of evaluations can be rendered, if there will be a film. It skips
// environments that could not be made.
func (d *Draft) checkVideo() {
	if d.EvalSpec.Name == "" {
		return
	}
	var err error
	d.Unrenderable, err = play.Film(d.Registries.Envs, d.Config.Env.Eval)
	d.found.Want(err == nil, "env.eval.video_cfg", nil, fmt.Sprintf("a view that can be drawn: %v", err))
}
