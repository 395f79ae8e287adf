package env

// A DataCollection is the section data_collection of env.train or env.eval. It records the episodes that a policy plays
// as demonstrations. The episodes of training are those of its rollouts.
type DataCollection struct {
	// Enabled records episodes. They go to train_global_step_N.safetensors, and those of evaluations to
	// eval_global_step_N.safetensors, when the run ends. N is the step at which it began. Default false.
	Enabled bool `yaml:"enabled"`
	// SaveDir is the folder of the files, which all ranks must share. "", the default, means the folder demos in the
	// run's folder.
	SaveDir string `yaml:"save_dir"`
	// ExportFormat is "pickle" (default) or "lerobot". Only Python reads pickles, so "pickle" stands for demonstrations
	// in safetensors. "lerobot" writes a folder of LeRobot, version 2.1, named as the file without its suffix.
	ExportFormat string `yaml:"export_format"`
	// FPS is the number of steps of an episode per second, for "lerobot". Default 10.
	FPS float64 `yaml:"fps"`
	// RobotType is the name of the robot, for "lerobot". "", the default, means the environment's name.
	RobotType string `yaml:"robot_type"`
	// OnlySuccess leaves out episodes without success. The environment must report success. Default false.
	OnlySuccess bool `yaml:"only_success"`
	// MinReturn leaves out episodes with a smaller return. Default: no limit. (+)
	MinReturn *float64 `yaml:"min_return,omitempty"`
	// MaxSteps is the maximum number of transitions in the file. The first episodes of all environments come first,
	// then their second episodes, and so on. Default 0: no limit. (+)
	MaxSteps int `yaml:"max_steps"`
}

// Formats of DataCollection.
const (
	ExportPickle  = "pickle"
	ExportLeRobot = "lerobot"
)

// Wants reports whether the episode is to be recorded.
func (d DataCollection) Wants(success bool, ret float64) bool {
	return (success || !d.OnlySuccess) && (d.MinReturn == nil || ret >= *d.MinReturn)
}

// check validates d, and calls the given function for each rule; see Config.Check. Keys are relative to the section
// data_collection.
func (d DataCollection) check(want func(ok bool, key string, value any, want string)) {
	known := d.ExportFormat == ExportPickle || d.ExportFormat == ExportLeRobot
	want(!d.Enabled || known, "export_format", d.ExportFormat,
		"pickle, which writes demonstrations in safetensors, or lerobot")
	want(!d.Enabled || 1e-3 <= d.FPS && d.FPS <= 1e6, "fps", d.FPS,
		"a number of steps per second from 0.001 to 1000000")
	want(d.MaxSteps >= 0, "max_steps", d.MaxSteps, "a number of transitions, or 0 for no limit")
	want(d.MinReturn == nil || *d.MinReturn-*d.MinReturn == 0, "min_return", d.MinReturn, "a number")
}
