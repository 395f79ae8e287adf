package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"gopkg.in/yaml.v3"
)

// Config is the configuration of a job: RLinf's YAML keys, and a few of our own (marked +). Get one
// from LoadConfig, and do not change it: what follows from it and from the world is in the job.
type Config struct {
	Cluster   ClusterConfig   `yaml:"cluster"`   // where components run
	SPMD      SPMDConfig      `yaml:"spmd"`      // virtual nodes (+)
	Comm      CommConfig      `yaml:"comm"`      // how ranks talk (+)
	Runner    RunnerConfig    `yaml:"runner"`    // how long the job goes on, and what it writes
	Algorithm AlgorithmConfig `yaml:"algorithm"` // what is learnt, and how
	Env       EnvConfig       `yaml:"env"`       // environments of training and of evaluation
	Rollout   RolloutConfig   `yaml:"rollout"`   // how rollouts are made
	Actor     ActorConfig     `yaml:"actor"`     // the policy and its optimiser
	Critic    CriticConfig    `yaml:"critic"`    // the critic of answers
	Data      DataConfig      `yaml:"data"`      // texts that a language model learns from
	// Reward is what rollouts record as rewards, where the component reward is placed.
	Reward reward.Config `yaml:"reward"`
	// WeightSyncer is how the actors' parameters travel to rollout workers.
	WeightSyncer WeightSyncerConfig `yaml:"weight_syncer"`

	found *config.Check // where values are from, and what is wrong with them; final once they are read
}

// ClusterConfig is the section cluster: where components run.
type ClusterConfig struct {
	// NumNodes is the number of nodes that the job must find. 0, the default, is however many there
	// are.
	NumNodes int `yaml:"num_nodes"`
	// ComponentPlacement says on which ranks each component has its workers: under one name, or
	// several with commas between them, RLinf's placement strings ("0-7", "all", "0-1:0-3").
	ComponentPlacement config.Map[PlacementConfig] `yaml:"component_placement"`
	// NodeGroups names sets of nodes for placements to refer to.
	NodeGroups []NodeGroupConfig `yaml:"node_groups"`
	// Tracer records a timeline of every worker, for a browser to show.
	Tracer TracerConfig `yaml:"tracer"`
	// AllowIdleRanks lets a world have ranks that no component is placed on. Default false. (+)
	AllowIdleRanks bool `yaml:"allow_idle_ranks"`
}

// TracerConfig is the section cluster.tracer.
type TracerConfig struct {
	// Enable writes OutputFile when the run ends. Default false.
	Enable bool `yaml:"enable"`
	// OutputFile is in Chrome's Trace Event Format. Default: trace.json in the run's folder.
	OutputFile string `yaml:"output_file"`
}

// PlacementConfig is the place of one component: written as the placement alone, or as a map with
// these keys.
type PlacementConfig struct {
	// NodeGroup are labels of node groups whose ranks are counted through, in this order. Default:
	// the whole cluster; "node" counts nodes instead of ranks.
	NodeGroup config.Words `yaml:"node_group"`
	// Placement is resources, or resources:workers, with commas between segments.
	Placement string `yaml:"placement"`
}

// UnmarshalText reads a placement alone.
func (p *PlacementConfig) UnmarshalText(text []byte) error {
	*p = PlacementConfig{Placement: string(text)}
	return nil
}

// MarshalYAML writes the short form where it says all.
func (p PlacementConfig) MarshalYAML() (any, error) {
	if len(p.NodeGroup) == 0 {
		return p.Placement, nil
	}
	type long PlacementConfig
	return long(p), nil
}

// NodeGroupConfig is a named set of nodes.
type NodeGroupConfig struct {
	// Label is the name, neither "cluster" nor "node".
	Label string `yaml:"label"`
	// NodeRanks are the nodes: a number, a range "0-3", several with commas between them, or a
	// list.
	NodeRanks Ranks `yaml:"node_ranks"`
}

// Ranks are ascending numbers of ranks, in YAML a number, ranges as "0-3,5", or a list.
type Ranks []int

// MaxRanks is more ranks and more nodes than any machine has.
const MaxRanks = 1 << 16

// UnmarshalYAML reads any of the three forms.
func (r *Ranks) UnmarshalYAML(y *yaml.Node) error {
	*r = nil
	if y.Kind == yaml.SequenceNode {
		return y.Decode((*[]int)(r))
	}
	for part := range strings.SplitSeq(y.Value, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		lo, err := strconv.Atoi(strings.TrimSpace(first))
		hi := lo
		if isRange && err == nil {
			hi, err = strconv.Atoi(strings.TrimSpace(last))
		}
		if err != nil || lo < 0 || hi < lo || hi >= MaxRanks {
			return fmt.Errorf("expected ranks, as 3, 0-3 or [0, 2]")
		}
		for n := lo; n <= hi; n++ {
			*r = append(*r, n)
		}
	}
	return nil
}

// SPMDConfig is the section spmd.
type SPMDConfig struct {
	// Nodes deals the ranks to so many virtual nodes, in equal contiguous blocks, so that code for
	// several nodes runs on one. 0, the default, is the real ones.
	Nodes int `yaml:"nodes"`
}

// CommConfig is the section comm: how ranks talk.
type CommConfig struct {
	// StallTimeout is how long a peer may show no sign of life before it is named and the job ends
	// with exit code 76. 0 is for ever. Default 1m.
	StallTimeout time.Duration `yaml:"stall_timeout"`
	// Reduce is how sums over ranks are made: ordered (default), in the order of the members, so
	// that the numbers depend on no transport and no placement; fast, by the quickest algorithm,
	// which may add in another order.
	Reduce string `yaml:"reduce"`
	// Table is a file that says which algorithm makes which operation, as `rlinf bench --tune`
	// measures it on this machine. Empty, the default, is the built-in choice.
	Table string `yaml:"table"`
	// BucketBytes is the size of the pieces in which a gradient leaves while the backward pass
	// still runs. Default 4 MiB.
	BucketBytes int `yaml:"bucket_bytes"`
	// Compression is how gradients travel: none (default), as they are; bf16, in half the bytes,
	// rounded. The metric train/actor/compression_error says what that takes from them.
	Compression string `yaml:"compression"`
	// CheckReplicas is the number of iterations between comparisons of the actors' parameters,
	// which must be the same bits on all; a difference ends the job. 0, the default, is never.
	CheckReplicas int `yaml:"check_replicas"`
	// Debug compares every collective call across its members before it runs, and names both sides
	// of a mismatch instead of hanging. Default false.
	Debug bool `yaml:"debug"`
}

// RunnerConfig is the section runner: how long the job goes on, and what it writes.
type RunnerConfig struct {
	// TaskType is embodied (default), embodied_eval, which only evaluates, sft, which fine-tunes a
	// language model on the texts of data, or reasoning, which trains it on its own answers to their
	// prompts. RLinf's offline is the same as embodied, for algorithms
	// that learn from demonstrations alone.
	TaskType string `yaml:"task_type"`
	// Logger says where the run's folder is.
	Logger LoggerConfig `yaml:"logger"`
	// MaxEpochs and MaxSteps bound the number of iterations, whichever is less; negative, the
	// default of both, is no bound. One of them or MaxTime must be given.
	MaxEpochs int `yaml:"max_epochs"`
	MaxSteps  int `yaml:"max_steps"`
	// MaxTime ends the job with a checkpoint and exit code 75 when it has run that long: 90s, 1h30m
	// or HH:MM:SS. 0, the default, is never. (+)
	MaxTime time.Duration `yaml:"max_time"`
	// ValCheckInterval is the number of iterations between evaluations; the last iteration is
	// followed by one too. ≤ 0, the default, is none.
	ValCheckInterval int `yaml:"val_check_interval"`
	// SaveInterval is the number of iterations between checkpoints, a multiple of ValCheckInterval
	// where both are on. ≤ 0, the default, is none.
	SaveInterval int `yaml:"save_interval"`
	// SaveAtEnd saves a checkpoint when the run ends, whatever SaveInterval says, so that rlinf eval
	// has a policy to play. RLinf saves none there. Default true. (+)
	SaveAtEnd bool `yaml:"save_at_end"`
	// KeepCheckpoints is how many checkpoints are kept, the newest. 0 keeps all. Default 3. A run of
	// a sweep also keeps the best one; its default is 1. (+)
	KeepCheckpoints int `yaml:"keep_checkpoints"`
	// ResumeDir is the checkpoint to go on from: a folder …/checkpoints/global_step_N, or auto for
	// the newest complete one of this run. Empty, the default, starts anew. An evaluation plays that
	// checkpoint; by default the newest of the run's folder.
	ResumeDir string `yaml:"resume_dir"`
	// CkptPath is a file of weights (safetensors) to start from, or to evaluate. With is_lora it may
	// have all weights of a language model; adapters are trained on them, and a resume needs the file,
	// too. Empty, the default, is none.
	CkptPath string `yaml:"ckpt_path"`
	// OnlyEval evaluates and does not train. Default false; true for the task embodied_eval.
	OnlyEval bool `yaml:"only_eval"`
	// WeightSyncInterval is the number of iterations between updates of the rollout workers'
	// weights. Default 1.
	WeightSyncInterval int `yaml:"weight_sync_interval"`
	// Async lets env and rollout workers make one rollout after the other while actors train, as
	// RLinf's train_async does: a rollout begins with the newest weights that have arrived. See
	// algorithm.staleness_threshold and actor.recv_drain_max_trajectories. What an asynchronous run
	// computes depends on time. Default false. (+)
	Async bool `yaml:"async"`
	// Deterministic computes with kernels whose results are the same bits in whatever batch a row
	// stands. Default true; false computes products by OpenBLAS where the build has it (tag blas):
	// faster on processors without AVX2, not on others. (+)
	Deterministic bool `yaml:"deterministic"`
	// Seed is that of everything random that has none of its own (actor.seed, env.train.seed,
	// env.eval.seed). Default 1. (+)
	Seed uint64 `yaml:"seed"`
	// SeqLength is the number of tokens of the longest text that a language model learns from. No
	// default.
	SeqLength int `yaml:"seq_length"`
	// EnableDynamicBatchSize packs texts into micro-batches of up to MaxTokensPerMbs tokens. Default
	// false: actor.micro_batch_size texts, whatever their length.
	EnableDynamicBatchSize bool `yaml:"enable_dynamic_batch_size"`
	// MaxTokensPerMbs is the number of tokens of a micro-batch then: at least SeqLength.
	MaxTokensPerMbs int `yaml:"max_tokens_per_mbs"`
	// EarlyStop ends fine-tuning when it no longer helps.
	EarlyStop EarlyStopConfig `yaml:"early_stop"`
}

// LoggerConfig says where the run's folder is and what is written there.
type LoggerConfig struct {
	// LogPath is the folder that holds the run's, <log_path>/<experiment_name>. Default logs.
	LogPath string `yaml:"log_path"`
	// ProjectName stands in the run's provenance. Default rlinf.
	ProjectName string `yaml:"project_name"`
	// ExperimentName is the name of the run's folder. Default: the name of the configuration's file,
	// without its ending.
	ExperimentName string `yaml:"experiment_name"`
	// LoggerBackends are written beside metrics.jsonl: tensorboard (default), or none.
	LoggerBackends config.Words `yaml:"logger_backends"`
	// TensorBoardAxis is TensorBoard's x axis: step (default), the iterations, as in RLinf; or
	// env_steps, the steps of all environments. metrics.jsonl has both. (+)
	TensorBoardAxis string `yaml:"tensorboard_axis"`
	// LogInterval is the number of iterations that a line of the metrics is the mean of.
	// Evaluations, checkpoints and the end have a line in any case. Default 1. (+)
	LogInterval int `yaml:"log_interval"`
}

// AlgorithmConfig is the section algorithm.
type AlgorithmConfig struct {
	algo.Config `yaml:",inline"`
	// GroupSize consecutive environments share their initial states. Default 1. It counts where
	// env.train.group_size and env.eval.group_size are not given. With the task reasoning it is the
	// number of answers to each prompt.
	GroupSize int `yaml:"group_size"`
	// Texts are the keys of the task reasoning alone.
	Texts algo.TextConfig `yaml:",inline"`
	// StalenessThreshold is how many iterations a rollout of an asynchronous run may lie behind the
	// actors. An older one is dropped; algorithms that learn from each rollout once need a bound,
	// and begin none that would be. Negative, the default, is no bound.
	StalenessThreshold int `yaml:"staleness_threshold"`
}

// EnvConfig is the section env.
type EnvConfig struct {
	// GroupName is what the component is called in messages. Default EnvGroup.
	GroupName string `yaml:"group_name"`
	// Train are the environments that experience comes from.
	Train env.Config `yaml:"train"`
	// Eval are those of evaluations. A key that is not given is as under train, except for
	// rollout_epoch, auto_reset and those that change rewards. max_steps_per_rollout_epoch is not
	// inherited either: 0, the default, lets an episode last until the task's own limit, or as long as
	// a rollout for a task without one.
	Eval env.Config `yaml:"eval"`
}

// RolloutConfig is the section rollout.
type RolloutConfig struct {
	// GroupName is what the component is called in messages. Default RolloutGroup.
	GroupName string `yaml:"group_name"`
	// PipelineStageNum is S: the environments of each env worker are split into so many parts, one
	// of which is simulated while actions are inferred for another. With the task reasoning the
	// prompts of each rollout worker are answered part after part, and no number changes.
	// Default 1.
	PipelineStageNum int `yaml:"pipeline_stage_num"`
	// MaxRunningRequests is how many answers a rollout worker of the task reasoning lets grow at the
	// same time. It changes no number. Default 64.
	MaxRunningRequests int `yaml:"max_running_requests"`
	// ReturnLogprobs lets answers of the task reasoning travel with the log-probs that their tokens had
	// when they were drawn. false needs algorithm.recompute_logprobs; no number changes, as both are
	// the same. Default true.
	ReturnLogprobs bool `yaml:"return_logprobs"`
	// Threads is the number of cores that a rollout worker of the task reasoning answers with. They
	// change no number. Default 1. (+)
	Threads int `yaml:"threads"`
	// SamplingParams say how answers are drawn, for the task reasoning, and actions of vla_policy.
	SamplingParams SamplingConfig `yaml:"sampling_params"`
	// EvalSamplingParams say the same of evaluations, which allow all values. (+)
	EvalSamplingParams EvalSamplingConfig `yaml:"eval_sampling_params"`
}

// ActorConfig is the section actor.
type ActorConfig struct {
	// GroupName is what the component is called in messages. Default ActorGroup.
	GroupName string `yaml:"group_name"`
	// MicroBatchSize is the number of samples that one actor takes at once. Must be > 0; no default.
	MicroBatchSize int `yaml:"micro_batch_size"`
	// GlobalBatchSize is the number of samples of one optimiser step, over all actors: a multiple
	// of MicroBatchSize times the number of actors. Must be > 0; no default.
	GlobalBatchSize int `yaml:"global_batch_size"`
	// RecvDrainMaxTrajectories is how many rollouts of each environment a replay buffer takes
	// before the updates of an iteration of an asynchronous run, out of those that have arrived; it
	// waits for one. As many may wait for it, or as the buffer holds where that is less. Default
	// 1024.
	RecvDrainMaxTrajectories int `yaml:"recv_drain_max_trajectories"`
	// Seed is that of the first weights, of the noise of actions and of the order of samples.
	// Default: runner.seed.
	Seed uint64 `yaml:"seed"`
	// EnableDPLoadBalance deals the texts of a batch to the actors so that all have about as many
	// tokens. Default false: in their order, as many texts to each.
	EnableDPLoadBalance bool `yaml:"enable_dp_load_balance"`
	// Threads is the number of cores that an actor computes a language model with. They change no
	// number. Default 1. (+)
	Threads int `yaml:"threads"`
	// Tokenizer turns texts into tokens.
	Tokenizer TokenizerConfig `yaml:"tokenizer"`
	// Model is the policy, or a language model, whose keys LanguageModel has.
	Model policy.Config `yaml:"model"`
	// Optim is the optimiser.
	Optim algo.OptimConfig `yaml:"optim"`
	// CriticOptim is the optimiser of critics of actions (add_q_head), and of the critic of answers, which
	// RLinf has in critic.optim. A key that is not given is as under optim.
	CriticOptim algo.OptimConfig `yaml:"critic_optim"`
}

// CriticConfig is the section critic: that of a language model which values answers. Its optimiser is
// actor.critic_optim, and it has the sizes of actor.model.
type CriticConfig struct {
	// UseCriticModel makes loss_type actor of a language model, with adv_type gae, actor_critic: RLinf's
	// files say so. Without adv_type gae it is refused. Default false.
	UseCriticModel bool `yaml:"use_critic_model"`
}

// Default returns the defaults. Load reports a key that has none and is not given.
func Default() *Config {
	eval := env.DefaultConfig()
	trainingAlone(&eval)
	return &Config{
		Comm: CommConfig{StallTimeout: time.Minute, Reduce: ReduceOrdered, BucketBytes: 4 << 20,
			Compression: CompressionNone},
		Runner: RunnerConfig{
			TaskType: TaskEmbodied,
			Logger: LoggerConfig{LogPath: "logs", ProjectName: "rlinf", ExperimentName: "default",
				LoggerBackends: config.Words{"tensorboard"}, TensorBoardAxis: AxisStep, LogInterval: 1},
			MaxEpochs: -1, MaxSteps: -1, ValCheckInterval: -1, SaveInterval: -1, SaveAtEnd: true,
			KeepCheckpoints: 3, WeightSyncInterval: 1, Deterministic: true, Seed: 1,
			EarlyStop: EarlyStopConfig{Patience: 5, MinDelta: 0.001, Monitor: MonitorLoss},
		},
		Algorithm: AlgorithmConfig{Config: algo.DefaultConfig(), GroupSize: 1, StalenessThreshold: -1,
			Texts: algo.DefaultTextConfig()},
		Env: EnvConfig{GroupName: "EnvGroup", Train: env.DefaultConfig(), Eval: eval},
		Rollout: RolloutConfig{GroupName: "RolloutGroup", PipelineStageNum: 1, MaxRunningRequests: 64, Threads: 1,
			ReturnLogprobs:     true,
			SamplingParams:     SamplingConfig{TemperatureTrain: 1, Temperature: 1, TopP: 1, RepetitionPenalty: 1},
			EvalSamplingParams: EvalSamplingConfig{Temperature: 1, TopP: 1, RepetitionPenalty: 1}},
		Actor: ActorConfig{GroupName: "ActorGroup", RecvDrainMaxTrajectories: 1024, Threads: 1,
			Model: policy.DefaultConfig(), Optim: algo.DefaultOptimConfig()},
		Reward: reward.DefaultConfig(),
		Data:   DataConfig{PromptKey: "prompt", AnswerKey: "answer", MessagesKey: "messages", Shuffle: true},

		WeightSyncer: defaultWeightSyncer(),
	}
}

// Values of RunnerConfig.TaskType, RunnerConfig.ResumeDir, LoggerConfig.TensorBoardAxis, CommConfig.Reduce and
// CommConfig.Compression.
const (
	TaskEmbodied     = "embodied"
	TaskEmbodiedEval = "embodied_eval"
	TaskOffline      = "offline"

	ResumeAuto = "auto"

	AxisStep     = "step"
	AxisEnvSteps = "env_steps"

	ReduceOrdered = "ordered"
	ReduceFast    = "fast"

	CompressionNone = "none"
	CompressionBF16 = "bf16"
)
