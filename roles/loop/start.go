package loop

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/tensor"
)

// A StartState is the state with which a run starts: a checkpoint, only weights, or nothing.
type StartState struct {
	From string // the checkpoint's folder, or the file of weights; "" for nothing
	Step int64  // number of iterations before the start
	// Rescheduled is a warning if a schedule differs from that of the checkpoint's run. Otherwise it is "".
	Rescheduled string

	checkpoint *checkpoint.Checkpoint // nil for weights alone, or for nothing
	files      []string               // the files of the checkpoint: the model, the trainer, others
	weights    string                 // the file of weights that are trained; "" for a checkpoint, or for nothing
	trainer    tensor.Dict            // the small tensors of the trainer's state
}

// smallBytes is the maximum size of a tensor in StartState.trainer, which has hashes and counters.
const smallBytes = 4 << 10

// Rollouts returns how many rollouts of each environment the actors have received.
func (b StartState) Rollouts() int64 {
	if t, ok := b.trainer.Get(TakenRollouts); ok {
		return t.I64()[0]
	}
	return b.Step // each iteration had one rollout
}

// TakenRollouts is the name of a tensor in the trainer's state. It counts how many rollouts of each environment the
// actors of an asynchronous run have received.
const TakenRollouts = "rollouts"

// open opens the files of the state. It returns no files if there is nothing to load. The caller must close the files,
// also after an error.
func (b StartState) open() (files []*job.ModelTensors, err error) {
	if b.weights != "" {
		f, err := job.OpenWeights("runner.ckpt_path", b.weights)
		if err != nil {
			return nil, err
		}
		return []*job.ModelTensors{f}, nil
	}
	for _, name := range b.files {
		f, err := openTensors(b.checkpoint, name)
		if err != nil {
			return files, err
		}
		files = append(files, f)
	}
	return files, nil
}

// openTensors opens a file of tensors of a checkpoint.
func openTensors(c *checkpoint.Checkpoint, file string) (*job.ModelTensors, error) {
	path, err := c.Path(file)
	if err != nil {
		return nil, err
	}
	return job.OpenTensors(path)
}

// NamedState returns the start state from the checkpoint in dir. A fork may change more keys than a resumed run: see
// forkableKeys.
func NamedState(p *JobPlan, yaml []byte, dir string, fork bool) (StartState, error) {
	c, err := checkpoint.Load(dir)
	if err != nil {
		return StartState{}, err
	}
	if !fork {
		return StateIn(p, yaml, c)
	}
	from, err := stateIn(p, yaml, c, forkableKeys[:])
	if other := (*checkpoint.ConfigError)(nil); errors.As(err, &other) {
		err = fmt.Errorf("%w\na fork may change rates, coefficients, clips, epochs, batch sizes and weights of "+
			"rewards, and nothing that shapes the state or names its random streams", err)
	}
	return from, err
}

// StateIn returns the start state from the checkpoint c. It returns an error if c belongs to another job.
func StateIn(p *JobPlan, yaml []byte, c *checkpoint.Checkpoint) (StartState, error) {
	return stateIn(p, yaml, c, nil)
}

func stateIn(p *JobPlan, yaml []byte, c *checkpoint.Checkpoint, mayDiffer []string) (b StartState, err error) {
	var then *config.Config
	resolved := func(stored []byte) (text []byte, err error) { // adds this program's defaults
		if then, err = config.Parse(p.Registries, stored); err != nil {
			return nil, err
		}
		// An expert may have been added to the simulator: it changes none of its episodes.
		if was := &then.Env.Train.External; external.SameButExpert(was.Greeting, p.Config.Env.Train.External.Greeting) {
			was.Greeting = p.Config.Env.Train.External.Greeting
		}
		return then.Resolved(), nil
	}
	if err := c.CheckConfig(yaml, resolved, slices.Concat(resumableKeys[:], p.MayDiffer, mayDiffer)...); err != nil {
		return b, err
	}
	b = StartState{From: c.Dir, Step: c.Step, Rescheduled: rescheduled(then, p.Config)}
	b.checkpoint, b.files = c, filesAt(p, c.Step)
	for _, file := range b.files {
		if _, err := c.Path(file); err != nil {
			return b, err
		}
	}
	return b.check(p)
}

// rescheduled returns a warning if the lengths of two runs differ, and a schedule depends on the length. The warning
// explains how to keep the old schedule. The result is "" if there is nothing to warn of, or if the earlier
// configuration, then, is nil.
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
			return fmt.Sprintf("%s.lr_scheduler %s: the run has another length than before, and so has the schedule: "+
				"the learning rate may jump now; %[1]s.total_training_steps fixes its end", o.key, o.optim.LRScheduler)
		}
	}
	if s := now.Algorithm.ClipRatioSchedule; s != algo.ScheduleConstant {
		return fmt.Sprintf("algorithm.clip_ratio_schedule %s: the run has another length than before, and so has the "+
			"schedule: the clip range may jump now; actor.optim.total_training_steps fixes its end", s)
	}
	return ""
}

// WeightsIn returns the start state from the file of weights at path, the value of runner.ckpt_path.
func WeightsIn(p *JobPlan, path string) (b StartState, err error) {
	b.From = path
	if path == p.BasePath {
		return b, nil
	}
	b.weights = path
	return b.check(p)
}

// CheckPaths returns a mistake for each path in cfg that the start of the job opens and that is missing:
// runner.resume_dir, runner.ckpt_path, the network of rewards and the weights of a frozen backbone. It adds the
// mistakes of CheckOutputs.
func CheckPaths(cfg *config.Config) error {
	var missing []error
	need := func(key, path, expected string) {
		if _, err := os.Stat(path); path != "" && err != nil {
			missing = append(missing, cfg.Mistake(key, path, fmt.Sprintf("%s: %v%s", expected, err, job.MadeBy(err))))
		}
	}
	if dir := cfg.Runner.ResumeDir; dir != config.ResumeAuto {
		need("runner.resume_dir", dir, "the folder of a checkpoint, or auto")
	}
	need("runner.ckpt_path", cfg.Runner.CkptPath, "a file of weights or the folder of a checkpoint")
	if cfg.Places("reward") && cfg.Trains() && cfg.Reward.UseRewardModel {
		need("reward.model.model_path", cfg.Reward.Model.ModelPath, "a file of parameters")
	}
	return errors.Join(append(missing, cfg.CheckBackbone(), CheckOutputs(cfg))...)
}

// CheckOutputs returns a mistake for each key with an output that the job of cfg cannot write, or that would replace a
// user's file. Outputs are the run's folder, the timeline, films and recordings. CheckOutputs changes nothing.
func CheckOutputs(cfg *config.Config) error {
	var wrong []error
	folder := func(key, dir string) {
		if err := durable.Creatable(dir); err != nil {
			wrong = append(wrong, cfg.Mistake(key, dir, fmt.Sprintf("a folder that can be written: %v", err)))
		}
	}
	if video := &cfg.Env.Eval.VideoCfg; cfg.Evaluates() && video.SaveVideo && video.VideoBaseDir != "" {
		folder("env.eval.video_cfg.video_base_dir", video.VideoBaseDir)
		wrong = append(wrong, CheckFilms(cfg, matching(video.VideoBaseDir, "global_step_*."+video.Format)...))
	}
	records := func(section string, d env.DataCollection, names string) {
		if d.Enabled && d.SaveDir != "" {
			folder(section+".data_collection.save_dir", d.SaveDir)
			wrong = append(wrong, CheckRecords(cfg, section, d, matching(d.SaveDir, names)...))
		}
	}
	if cfg.Evaluates() {
		records("env.eval", cfg.Env.Eval.DataCollection, "eval_global_step_*")
	}
	if !cfg.Trains() {
		return errors.Join(wrong...)
	}
	records("env.train", cfg.Env.Train.DataCollection, "train_global_step_*")
	if err := runfolder.Check(cfg.Folder()); err != nil {
		name := cfg.Runner.Logger.ExperimentName
		wrong = append(wrong, cfg.Mistake("runner.logger.experiment_name", name, "another name: "+err.Error()))
	} else {
		folder("runner.logger.log_path", cfg.Folder())
	}
	if t := &cfg.Cluster.Tracer; t.Enable && t.OutputFile != "" {
		const key = "cluster.tracer.output_file"
		if err := durable.Replaceable(t.OutputFile, trace.IsChrome); err != nil {
			wrong = append(wrong, cfg.Mistake(key, t.OutputFile, "the name of another file: "+err.Error()))
		} else if err := durable.Writable(filepath.Dir(t.OutputFile)); err != nil {
			wrong = append(wrong, cfg.Mistake(key, t.OutputFile,
				fmt.Sprintf("a file in a folder that can be written: %v", err)))
		}
	}
	return errors.Join(wrong...)
}

// CheckFilms returns a mistake if a film of cfg would replace one of these files, and the file is not a film. It can
// tell this only for PNG files. The mistake names the first such file.
func CheckFilms(cfg *config.Config, files ...string) error {
	v := &cfg.Env.Eval.VideoCfg
	return checkOwn(cfg, "env.eval.video_cfg.video_base_dir", v.VideoBaseDir, files,
		func(head []byte) bool { return v.Format != "png" || video.IsFilm(head) })
}

// CheckRecords is CheckFilms for recordings. They are files of demonstrations, and folders of LeRobot if d writes them.
// d is the data collection of a section: env.train or env.eval.
func CheckRecords(cfg *config.Config, section string, d env.DataCollection, paths ...string) error {
	key := section + ".data_collection.save_dir"
	for _, path := range paths {
		dir, isFile := strings.CutSuffix(path, ".safetensors")
		if d.ExportFormat == env.ExportLeRobot && (isFile || filepath.Ext(path) == "") {
			if err := lerobot.Replaceable(dir); err != nil {
				return cfg.Mistake(key, d.SaveDir, fmt.Sprintf("another folder: %v", err))
			}
		}
		if !isFile {
			continue
		}
		if err := checkOwn(cfg, key, d.SaveDir, []string{path}, algo.IsDemos); err != nil {
			return err
		}
	}
	return nil
}

func checkOwn(cfg *config.Config, key, dir string, files []string, made func(head []byte) bool) error {
	for _, file := range files {
		if err := durable.Replaceable(file, made); err != nil {
			return cfg.Mistake(key, dir, fmt.Sprintf("another folder: %s: %v", file, err))
		}
	}
	return nil
}

// matching returns the files and folders in dir whose names match a pattern of filepath.Match.
func matching(dir, pattern string) (files []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if ok, _ := filepath.Match(pattern, e.Name()); ok {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files
}

// CheckStart returns an error if the job of p cannot start from the checkpoint or the weights in its configuration.
func CheckStart(p *JobPlan) error {
	cfg := p.Config
	if err := CheckPaths(cfg); err != nil {
		return err
	}
	key, path, err := "runner.resume_dir", cfg.Runner.ResumeDir, error(nil)
	switch {
	case path == config.ResumeAuto:
		return nil
	case path != "" && cfg.Trains():
		_, err = NamedState(p, cfg.Record(), path, false)
	case path != "":
		_, err = checkpoint.Load(path)
	case cfg.Runner.CkptPath != "":
		key, path = "runner.ckpt_path", cfg.Runner.CkptPath
		_, err = WeightsIn(p, path)
	}
	if err != nil {
		return cfg.Mistake(key, path, "a state of this job: "+strings.TrimPrefix(err.Error(), key+": "))
	}
	return nil
}

// check reads the small tensors of b. It returns an error if the state belongs to another job.
func (b StartState) check(p *JobPlan) (StartState, error) {
	files, err := b.open()
	for _, f := range files {
		defer f.Close()
	}
	if err != nil {
		return b, err
	}
	if len(files) > 1 {
		if b.trainer, err = files[1].Small(smallBytes); err != nil {
			return b, err
		}
	}
	if err := p.Fits(files[0].Fields, b.trainer); err != nil {
		return b, fmt.Errorf("%s: %w", b.From, err)
	}
	return b, nil
}

// Latest returns the path of the newest checkpoint in the run's folder. It does not check that the checkpoint exists.
func Latest(cfg *config.Config) string { return filepath.Join(cfg.Folder(), "checkpoints", "latest") }

// FindModel opens the model of the checkpoint in dir, and returns the path of the checkpoint or file. If dir is "",
// FindModel opens the file of weights in runner.ckpt_path. If this key is not set either, FindModel opens the newest
// checkpoint in the run's folder.
func FindModel(cfg *config.Config, dir string) (from string, f *job.ModelTensors, err error) {
	if path := cfg.Runner.CkptPath; dir == "" && path != "" {
		f, err = job.OpenWeights("runner.ckpt_path", path)
		return path, f, err
	}
	newest := Latest(cfg)
	if dir = cmp.Or(dir, newest); dir == newest {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return "", nil, fmt.Errorf("no checkpoint in %s: expected a run that saved one (runner.save_interval), "+
				"--checkpoint DIR or runner.ckpt_path", cfg.Folder())
		}
	}
	c, err := checkpoint.Load(dir)
	if err != nil {
		return "", nil, err
	}
	f, err = OpenModel(c)
	return c.Dir, f, err
}

// OpenModel opens the file of the model in a checkpoint.
func OpenModel(c *checkpoint.Checkpoint) (*job.ModelTensors, error) {
	return openTensors(c, state.ModelFile)
}

// RewardScale returns the number by which training divided rewards, or 0 if the checkpoint does not have it.
func RewardScale(c *checkpoint.Checkpoint) float64 {
	f, err := openTensors(c, state.TrainerFile)
	if err != nil {
		return 0
	}
	defer f.Close()
	small, err := f.Small(64)
	if err != nil {
		return 0
	}
	return algo.RewardScale(small)
}

// ExplainSpaces explains err, an error of loading the checkpoint at path. path is a folder, or a file in it. If the
// simulators with this greeting have other observations or actions than the run that wrote the checkpoint,
// ExplainSpaces returns an error that says so. Otherwise it returns err.
func ExplainSpaces(err error, reg config.Registries, path, greeting string) error {
	if err == nil {
		return nil
	}
	folder := path
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		folder = filepath.Dir(path)
	}
	c, unreadable := checkpoint.Load(folder)
	if unreadable != nil {
		return err
	}
	text, unreadable := c.Read("config.yaml")
	if unreadable != nil {
		return err
	}
	then, unreadable := config.Parse(reg, text)
	if unreadable != nil {
		return err
	}
	if changed := external.Changed(then.Env.Train.External.Greeting, greeting); changed != "" {
		return fmt.Errorf("%s: %s", path, changed)
	}
	return err
}
