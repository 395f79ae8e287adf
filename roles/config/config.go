package config

import (
	"fmt"
	"slices"
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

// Config is the configuration of a job: RLinf's YAML keys, and a few of our own (marked +). Get a Config from Load, and
// do not change it. The plan of a job has the values that depend on both the Config and the world.
type Config struct {
	Cluster   ClusterConfig   `yaml:"cluster"`   // where components run
	SPMD      SPMDConfig      `yaml:"spmd"`      // virtual nodes (+)
	Comm      CommConfig      `yaml:"comm"`      // communication between ranks (+)
	Runner    RunnerConfig    `yaml:"runner"`    // the length of the job, and its output
	Algorithm AlgorithmConfig `yaml:"algorithm"` // what is learnt, and how
	Env       EnvConfig       `yaml:"env"`       // environments of training and of evaluation
	Rollout   RolloutConfig   `yaml:"rollout"`   // how rollouts are made
	Actor     ActorConfig     `yaml:"actor"`     // the policy and its optimiser
	Inference InferenceConfig `yaml:"inference"` // the workers that compute log-probabilities
	Critic    CriticConfig    `yaml:"critic"`    // the critic of answers
	Data      DataConfig      `yaml:"data"`      // texts for language models
	// Reward configures the rewards of rollouts, if the component reward is placed.
	Reward reward.Config `yaml:"reward"`
	// WeightSyncer configures how the actors' parameters reach rollout workers.
	WeightSyncer WeightSyncerConfig `yaml:"weight_syncer"`

	found *config.Check // the origins of values and their mistakes; complete after reading
	fixed bool          // the placement is from At
}

// ClusterConfig is the section cluster: where components run.
type ClusterConfig struct {
	// NumNodes is the required number of nodes. 0, the default, allows any number.
	NumNodes int `yaml:"num_nodes"`
	// ComponentPlacement gives components (names, with commas between them) the ranks of their workers: RLinf's
	// placement string ("0-7", "all", "0-1:0-3"), or auto: the job measures itself and plans the ranks. Default: all.
	ComponentPlacement config.Map[PlacementConfig] `yaml:"component_placement"`
	// NodeGroups defines named sets of nodes, for use in placements.
	NodeGroups []NodeGroupConfig `yaml:"node_groups"`
	// Tracer records a timeline of every worker.
	Tracer TracerConfig `yaml:"tracer"`
	// AllowIdleRanks allows ranks without workers. Default false. (+)
	AllowIdleRanks bool `yaml:"allow_idle_ranks"`
	// AutoScheduler moves workers between ranks while the job runs, if the times of iterations predict a gain; this
	// needs cluster.tracer.record. In the reasoning task, the ranks of actors, rollout and inference workers form one
	// pool instead. The actors are spread over the pool. Prompts are distributed over it, and unfinished answers move
	// to ranks with fewer answers. Results do not change. Default false.
	AutoScheduler bool `yaml:"auto_scheduler"`
	// UsePreProcessPolicy lets the ranks of actors generate answers, too, in the pool of auto_scheduler. Default true.
	UsePreProcessPolicy bool `yaml:"use_pre_process_policy"`
}

// TracerConfig is the section cluster.tracer.
type TracerConfig struct {
	// Record logs the times of every worker in the run's folder, for rlinf report and rlinf watch. Default true. (+)
	Record bool `yaml:"record"`
	// Enable keeps the record of all iterations, and writes OutputFile when the run ends. Default false.
	Enable bool `yaml:"enable"`
	// OutputFile is the path of the timeline, in Chrome's Trace Event Format. Default: trace.json in the run's folder.
	OutputFile string `yaml:"output_file"`
}

// PlacementConfig is the placement of one component: a placement string, or a map with these keys.
type PlacementConfig struct {
	// NodeGroup has labels of node groups. The numbers in Placement count the ranks of these groups, in this order.
	// With the label "node" they count nodes instead of ranks. Default: all nodes.
	NodeGroup config.Words `yaml:"node_group"`
	// Placement has segments with commas between them: resources, or resources:workers. auto lets the job plan it.
	Placement string `yaml:"placement"`
}

// UnmarshalText reads a placement string.
func (p *PlacementConfig) UnmarshalText(text []byte) error {
	*p = PlacementConfig{Placement: string(text)}
	return nil
}

// MarshalYAML writes a placement string if there is no node group.
func (p PlacementConfig) MarshalYAML() (any, error) {
	if len(p.NodeGroup) == 0 {
		return p.Placement, nil
	}
	type long PlacementConfig
	return long(p), nil
}

// NodeGroupConfig is a named set of nodes.
type NodeGroupConfig struct {
	// Label is the name, other than "cluster" and "node".
	Label string `yaml:"label"`
	// NodeRanks are the nodes: a number, a range "0-3", several with commas between them, or a list.
	NodeRanks Ranks `yaml:"node_ranks"`
}

// Ranks are ascending numbers of ranks. In YAML they are a number, ranges such as "0-3,5", or a list.
type Ranks []int

// MaxRanks is the maximum number of ranks and of nodes.
const MaxRanks = 1 << 16

// UnmarshalYAML reads a number, ranges, or a list.
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
	// Nodes is the number of virtual nodes. The ranks are divided among them in equal contiguous blocks, so that one
	// node can run code for several nodes. 0, the default, uses the real nodes.
	Nodes int `yaml:"nodes"`
}

// CommConfig is the section comm: communication between ranks.
type CommConfig struct {
	// StallTimeout limits how long a rank may stop responding. Then the job names the rank, and ends with exit code 76.
	// 0 is no limit. Default 1m.
	StallTimeout time.Duration `yaml:"stall_timeout"`
	// Reduce is the algorithm that sums over ranks. ordered, the default, uses one binary tree over the members, so
	// that sums do not depend on the transport or the placement. fast uses the fastest algorithm, which may add in a
	// different order.
	Reduce string `yaml:"reduce"`
	// Table is a file with the algorithm for each collective operation, written by `rlinf bench --tune` on this
	// machine. Empty, the default, uses the built-in choice.
	Table string `yaml:"table"`
	// BucketBytes is the size of a gradient bucket in bytes. Buckets are summed over ranks while the backward pass
	// still runs. Default 4 MiB.
	BucketBytes int `yaml:"bucket_bytes"`
	// Compression is the format of gradients between ranks. none (default) is float32. bf16 rounds them, and about
	// halves the bytes. The metric train/actor/compression_error shows the loss of accuracy.
	Compression string `yaml:"compression"`
	// CheckReplicas is the number of iterations between comparisons of the actors' parameters. The job ends if the
	// actors differ in any bit. 0, the default, never compares.
	CheckReplicas int `yaml:"check_replicas"`
	// Debug compares every collective call across its members before it runs. It reports both sides of a mismatch,
	// which would otherwise hang. Default false.
	Debug bool `yaml:"debug"`
}

// RunnerConfig is the section runner: the length of the job, and its output.
type RunnerConfig struct {
	// TaskType is embodied (default); embodied_eval, which only evaluates; sft, which fine-tunes a language model on
	// the texts of data; or reasoning, which trains a language model on its own answers to the prompts of data. RLinf's
	// offline is the same as embodied, for algorithms that learn from demonstrations alone.
	TaskType string `yaml:"task_type"`
	// Logger is the run's folder, and its files of metrics.
	Logger LoggerConfig `yaml:"logger"`
	// MaxEpochs and MaxSteps bound the number of iterations; the smaller bound counts. A negative number, the default
	// of both, is no bound. MaxEpochs, MaxSteps or MaxTime must be given.
	MaxEpochs int `yaml:"max_epochs"`
	MaxSteps  int `yaml:"max_steps"`
	// MaxTime ends the job after this time with a checkpoint and exit code 75: 90s, 1h30m or HH:MM:SS. 0, the
	// default, is no limit. (+)
	MaxTime time.Duration `yaml:"max_time"`
	// ValCheckInterval is the number of iterations between evaluations. Another evaluation follows the last iteration.
	// ≤ 0, the default, is no evaluation.
	ValCheckInterval int `yaml:"val_check_interval"`
	// SaveInterval is the number of iterations between checkpoints. It must be a multiple of ValCheckInterval if both
	// are > 0. ≤ 0, the default, is no checkpoint.
	SaveInterval int `yaml:"save_interval"`
	// SaveAtEnd saves a checkpoint when the run ends, even without SaveInterval, so that rlinf eval can evaluate it.
	// Without SaveInterval RLinf saves none. Default true. (+)
	SaveAtEnd bool `yaml:"save_at_end"`
	// KeepCheckpoints is the number of newest checkpoints to keep. 0 keeps all. Default 3; in a sweep 1. A run of a
	// sweep also keeps its best checkpoint. (+)
	KeepCheckpoints int `yaml:"keep_checkpoints"`
	// ResumeDir is the checkpoint to resume from: a folder …/checkpoints/global_step_N, or auto for the newest
	// complete checkpoint of this run. Empty, the default, starts anew. An evaluation evaluates this checkpoint, or by
	// default the newest checkpoint in the run's folder.
	ResumeDir string `yaml:"resume_dir"`
	// CkptPath is a file of weights (safetensors), or a checkpoint's folder, to start from or to evaluate. With is_lora
	// it may have all weights of a language model. The run then trains adapters on these weights, and needs the file
	// again to resume. Empty, the default, is none.
	CkptPath string `yaml:"ckpt_path"`
	// OnlyEval evaluates and does not train. Default false; true for the embodied_eval task.
	OnlyEval bool `yaml:"only_eval"`
	// WeightSyncInterval is the number of iterations between updates of the rollout workers'
	// weights. Default 1.
	WeightSyncInterval int `yaml:"weight_sync_interval"`
	// Async lets env and rollout workers make one rollout after the other while actors train, like RLinf's
	// train_async. A rollout begins with the newest weights that have arrived. See algorithm.staleness_threshold
	// and actor.recv_drain_max_trajectories. Results of an asynchronous run depend on timing. Default false. (+)
	Async bool `yaml:"async"`
	// Deterministic uses kernels whose result for a row does not depend on the other rows of the batch. Default true.
	// false uses OpenBLAS for matrix products if the build has it (tag blas), which is faster only on processors
	// without AVX2. (+)
	Deterministic bool `yaml:"deterministic"`
	// Seed is the seed of all random numbers, unless a part has a seed of its own (actor.seed, env.train.seed,
	// env.eval.seed). Default 1. (+)
	Seed uint64 `yaml:"seed"`
	// SeqLength is the maximum number of tokens of a text that a language model is trained on. No default.
	SeqLength int `yaml:"seq_length"`
	// EnableDynamicBatchSize packs texts into micro-batches of up to MaxTokensPerMbs tokens. Default false:
	// micro-batches have actor.micro_batch_size texts of any length.
	EnableDynamicBatchSize bool `yaml:"enable_dynamic_batch_size"`
	// MaxTokensPerMbs is the maximum number of tokens of a packed micro-batch: at least SeqLength.
	MaxTokensPerMbs int `yaml:"max_tokens_per_mbs"`
	// EarlyStop ends fine-tuning when validation no longer improves.
	EarlyStop EarlyStopConfig `yaml:"early_stop"`
}

// LoggerConfig is the section runner.logger: the run's folder, and its files of metrics.
type LoggerConfig struct {
	// LogPath is the parent of the run's folder, <log_path>/<experiment_name>. Default logs.
	LogPath string `yaml:"log_path"`
	// ProjectName is written to the run's provenance. Default rlinf.
	ProjectName string `yaml:"project_name"`
	// ExperimentName is the name of the run's folder. Default: the name of the configuration file without its
	// extension.
	ExperimentName string `yaml:"experiment_name"`
	// LoggerBackends are formats of metrics in addition to metrics.jsonl: tensorboard (default), or an empty list.
	LoggerBackends config.Words `yaml:"logger_backends"`
	// TensorBoardAxis is TensorBoard's x axis: step (default), the iterations, as in RLinf; or env_steps, the steps
	// of all environments. metrics.jsonl has both. (+)
	TensorBoardAxis string `yaml:"tensorboard_axis"`
	// LogInterval is the number of iterations between two lines of metrics. A line has the means since the previous
	// line. Evaluations, checkpoints and the end of the run always write a line. Default 1. (+)
	LogInterval int `yaml:"log_interval"`
}

// AlgorithmConfig is the section algorithm.
type AlgorithmConfig struct {
	algo.Config `yaml:",inline"`
	// GroupSize is the number of consecutive environments that share their initial states in training. It applies if
	// env.train.group_size is not given. In the reasoning task it is the number of answers to each prompt. Default 1.
	GroupSize int `yaml:"group_size"`
	// Texts are the keys that only the reasoning task has.
	Texts algo.TextConfig `yaml:",inline"`
	// StalenessThreshold is the maximum age of a rollout in an asynchronous run, in iterations of the actors. Older
	// rollouts are dropped. Algorithms that learn from each rollout once need a bound, and never begin a
	// rollout that would become too old. A negative number, the default, is no bound.
	StalenessThreshold int `yaml:"staleness_threshold"`
}

// EnvConfig is the section env.
type EnvConfig struct {
	// GroupName is the component's name in messages. Default EnvGroup.
	GroupName string `yaml:"group_name"`
	// Train are the environments of training.
	Train env.Config `yaml:"train"`
	// Eval are the environments of evaluations. The default of a key is its value under train, except for
	// rollout_epoch, auto_reset, max_steps_per_rollout_epoch and keys that change rewards. With
	// max_steps_per_rollout_epoch 0, the default, an episode ends at the task's own limit, or after the length of a
	// rollout if the task has no limit.
	Eval env.Config `yaml:"eval"`
}

// RolloutConfig is the section rollout.
type RolloutConfig struct {
	// GroupName is the component's name in messages. Default RolloutGroup.
	GroupName string `yaml:"group_name"`
	// PipelineStageNum is the number of parts into which each env worker splits its environments. One part is simulated
	// while actions are inferred for another. In the reasoning task, each rollout worker splits its prompts, and
	// answers one part after the other. It changes no result. Default 1.
	PipelineStageNum int `yaml:"pipeline_stage_num"`
	// MaxRunningRequests is the number of answers that a rollout worker of the reasoning task generates at the same
	// time. It changes no result. Default 64.
	MaxRunningRequests int `yaml:"max_running_requests"`
	// ReturnLogprobs sends answers of the reasoning task with the log-probs that their tokens had when they were
	// sampled. false needs algorithm.recompute_logprobs, which gives the same log-probs. Default true.
	ReturnLogprobs bool `yaml:"return_logprobs"`
	// Threads is the number of cores of a rollout worker in the reasoning task. It changes no result. Default 1. (+)
	Threads int `yaml:"threads"`
	// TensorParallelSize is the number of rollout workers that divide every layer of one model. rlinf eval divides the
	// model into the same number of parts, among goroutines or among its ranks. Default 1.
	TensorParallelSize int `yaml:"tensor_parallel_size"`
	// PipelineParallelSize must be 1, the default: rollout workers do not divide a model into stages.
	PipelineParallelSize int `yaml:"pipeline_parallel_size"`
	// SamplingParams configures how answers of the reasoning task, and actions of vla_policy, are sampled.
	SamplingParams SamplingConfig `yaml:"sampling_params"`
	// EvalSamplingParams configures how evaluations sample answers. All values of its keys are supported. (+)
	EvalSamplingParams EvalSamplingConfig `yaml:"eval_sampling_params"`
}

// ActorConfig is the section actor.
type ActorConfig struct {
	// GroupName is the component's name in messages. Default ActorGroup.
	GroupName string `yaml:"group_name"`
	// MicroBatchSize is the number of samples that an actor computes at once. Default: its part of GlobalBatchSize, or
	// an eighth of it if the placement leaves the number of actors open. Language models have no defaults of both.
	MicroBatchSize int `yaml:"micro_batch_size"`
	// GlobalBatchSize is the number of samples of an optimiser step: a multiple of MicroBatchSize times the actors. By
	// default a quarter of an iteration's, or all if 4 does not divide them or for a2c; 256 off-policy and offline.
	GlobalBatchSize int `yaml:"global_batch_size"`
	// RecvDrainMaxTrajectories is for asynchronous runs with a replay buffer. It is the maximum number of rollouts of
	// each environment that the buffer receives before the updates of an iteration; it waits for one. It is also the
	// maximum number of waiting rollouts, unless the buffer's capacity is smaller. Default 1024.
	RecvDrainMaxTrajectories int `yaml:"recv_drain_max_trajectories"`
	// EnableDrQ shifts the images of transitions at random, by up to 4 pixels, and repeats edges. Default false.
	EnableDrQ bool `yaml:"enable_drq"`
	// Device is where actors compute updates: cpu, or cuda for a GPU, with the same results. A list has a value for
	// each actor. cuda trains MLPs and CNNs by on-policy algorithms and embodied_sac, and dense language models on
	// texts and on answers. It needs a program with the build tag cuda. A rank uses the GPU of its number on the node,
	// modulo the number of GPUs. Default cpu. (+)
	Device config.Words `yaml:"device"`
	// Seed is the seed of initial weights, of action noise and of the order of samples. Default: runner.seed.
	Seed uint64 `yaml:"seed"`
	// EnableDPLoadBalance distributes the texts of a batch so that all actors get about the same number of tokens.
	// Default false: all actors get the same number of texts, in their order.
	EnableDPLoadBalance bool `yaml:"enable_dp_load_balance"`
	// Threads is the number of cores that an actor uses for a language model. It changes no result. Default 1. (+)
	Threads int `yaml:"threads"`
	// Tokenizer converts texts to tokens.
	Tokenizer TokenizerConfig `yaml:"tokenizer"`
	// Model is the policy, or a language model with the keys of LanguageModel.
	Model policy.Config `yaml:"model"`
	// Optim is the optimiser.
	Optim algo.OptimConfig `yaml:"optim"`
	// CriticOptim is the optimiser of critics of actions (add_q_head), and of the critic of answers (RLinf's
	// critic.optim). The default of a key is its value under optim. If lr is given here, the default of value_lr is lr.
	CriticOptim algo.OptimConfig `yaml:"critic_optim"`
	// FSDPConfig configures how a language model saves memory. Its keys are named as in PyTorch's FSDP.
	FSDPConfig FSDPConfig `yaml:"fsdp_config"`
}

// Values of ActorConfig.Device.
const (
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// UsesGPU reports whether member m of the actors computes on a GPU.
func (c *ActorConfig) UsesGPU(m int) bool { return c.Device[m%len(c.Device)] == DeviceCUDA }

// UseGPUs reports whether an actor computes on a GPU.
func (c *ActorConfig) UseGPUs() bool { return slices.Contains(c.Device, DeviceCUDA) }

// CriticConfig is the section critic: the critic of answers of a language model. Its optimiser is
// actor.critic_optim, and it has the sizes of actor.model.
type CriticConfig struct {
	// UseCriticModel changes the loss_type of a language model from actor to actor_critic, as in RLinf's presets. true
	// needs adv_type gae. Default false.
	UseCriticModel bool `yaml:"use_critic_model"`
	// Model is the layout of the critic on its ranks. Default: the actor's layout. If the section is given, the default
	// of its keys is 1.
	Model LayoutConfig `yaml:"model"`
}

// Default returns the default values. Keys without a default have invalid values, which Load reports.
func Default() *Config {
	eval := env.DefaultConfig()
	trainingAlone(&eval)
	return &Config{
		Cluster: ClusterConfig{Tracer: TracerConfig{Record: true}, UsePreProcessPolicy: true},
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
			TensorParallelSize: 1, PipelineParallelSize: 1, ReturnLogprobs: true,
			SamplingParams:     SamplingConfig{TemperatureTrain: 1, Temperature: 1, TopP: 1, RepetitionPenalty: 1},
			EvalSamplingParams: EvalSamplingConfig{Temperature: 1, TopP: 1, RepetitionPenalty: 1}},
		Actor: ActorConfig{GroupName: "ActorGroup", RecvDrainMaxTrajectories: 1024, Threads: 1,
			Device: config.Words{DeviceCPU}, Model: policy.DefaultConfig(), Optim: algo.DefaultOptimConfig(),
			FSDPConfig: FSDPConfig{ShardingStrategy: NoShard}},
		Inference: InferenceConfig{Model: wholeModel}, Critic: CriticConfig{Model: wholeModel},
		Reward: reward.DefaultConfig(),
		Data: DataConfig{PromptKey: "prompt", AnswerKey: "answer", MessagesKey: "messages", Shuffle: true,
			Balanced: true},

		WeightSyncer: defaultWeightSyncer(),
	}
}
