package config

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
