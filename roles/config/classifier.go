package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/reward"
)

// A ClassifierKeys has the keys of actor.model if a classifier of images is trained: model_type resnet in the task sft.
type ClassifierKeys struct {
	ModelPath     string `yaml:"model_path" doc:"Weights to begin with (safetensors); empty: new ones."`
	resnet.Config `yaml:",inline"`
}

// Check validates the values. It calls report with the result of each rule.
func (m ClassifierKeys) Check(report func(ok bool, key string, value any, expected string)) {
	m.Config.Check(report)
	report(!m.Pretrained || m.ModelPath != "", "pretrained", true, "false, or torchvision's weights in model_path. "+
		"This line of Python writes them: import torchvision, safetensors.torch as s; "+
		"s.save_file(torchvision.models."+m.Arch+"(weights='IMAGENET1K_V1').state_dict(), '"+m.Arch+".safetensors')")
}

func classifier() params.Own { return params.New(ClassifierKeys{Config: resnet.DefaultConfig()}) }

// Classifies reports whether the job trains a classifier of images.
func (c *Config) Classifies() bool {
	return c.Runner.TaskType == TaskSFT && c.Actor.Model.ModelType == reward.ResNet
}

// Classifier returns the keys of actor.model, or the zero value if no classifier is trained.
func (c *Config) Classifier() ClassifierKeys {
	m, _ := params.Get(c.Actor.Model.Own, ClassifierKeys{})
	m.Config = m.Config.Sized(c.Actor.Model.ImageSize)
	return m
}

// checkClassifier checks the values of a job that trains a classifier of images.
func (c *validation) checkClassifier() {
	want, r, a, d := c.found.Want, &c.Runner, &c.Actor, &c.Data
	c.Actor.Model.Own.Check(c.found.At("actor.model").Want)
	c.Classifier().CheckSize(c.found.At("actor.model").Want)
	c.Actor.Optim.Check(c.found.At("actor.optim").Want)
	want(!r.OnlyEval, "runner.only_eval", r.OnlyEval, "false (model_type resnet)")
	want(!r.Async, "runner.async", r.Async, "false (model_type resnet)")
	train, eval := c.unasked()
	const none = "a classifier of images learns from files"
	c.idleKey("env.train", !reflect.DeepEqual(c.Env.Train, train), "a map", none)
	c.idleKey("env.eval", !reflect.DeepEqual(c.Env.Eval, eval), "a map", none)
	c.idleReward("a key of rewards of environments")
	others := append([]string{"actor.model.hidden_sizes", "actor.model.num_action_chunks"}, algorithmsOfModel...)
	c.idleKeys("a key of other networks", slices.DeleteFunc(others, func(key string) bool {
		return key == "actor.model.image_size"
	})...)
	c.checkAlgorithmKeys()
	c.idleReasoning()
	want(a.GlobalBatchSize > 0, "actor.global_batch_size", a.GlobalBatchSize, "a number > 0")
	want(a.MicroBatchSize > 0, "actor.micro_batch_size", a.MicroBatchSize, "a number > 0")
	want(!d.Balanced || a.GlobalBatchSize%2 == 0, "actor.global_batch_size", a.GlobalBatchSize,
		"an even number (data.balanced)")
	want(len(d.TrainDataPaths) > 0, "data.train_data_paths", nil, "files of frames (rlinf data frames)")
	want(!c.Evaluates() || len(d.ValDataPaths) > 0, "data.val_data_paths", nil,
		fmt.Sprintf("files of frames (val_check_interval %d)", r.ValCheckInterval))
	c.checkEarlyStop(MonitorLoss, MonitorAccuracy)
}

// Steps returns the number of steps of a job. perEpoch is the number of steps of an epoch.
func (r *RunnerConfig) Steps(perEpoch int64) int64 {
	n := int64(math.MaxInt64)
	if r.MaxEpochs >= 0 {
		n = int64(Product(r.MaxEpochs, int(perEpoch)))
	}
	if r.MaxSteps >= 0 {
		n = min(n, int64(r.MaxSteps))
	}
	return n
}
