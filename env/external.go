package env

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// An External configures the simulators of env_type external. These are separate programs, in any
// language, that speak the protocol of docs/bridge.md. Set either Command or Listen.
type External struct {
	// Command is the program and its arguments: a list, or a text that is split at white space.
	// Every rank with environments starts the program N times, and stops it at the end.
	Command Command `yaml:"command"`
	// N is the number of children that share the environments of a rank. With
	// rollout.pipeline_stage_num, each stage of a rank has N children. Default 1. If each child
	// plays a fixed number of environments, the job starts enough children for all environments.
	N int `yaml:"n"`
	// Listen is the address at which the job waits for children that were started elsewhere:
	// unix:/path or tcp:host:port. Rank R listens at path.R (rank 0: path) or port+R. Without a
	// host, only children on this machine can connect. With "mpi", the children are other programs
	// of the same MPI job.
	Listen string `yaml:"listen"`
	// TokenFile is a file whose first line is a secret that children must send to connect. The file
	// is created if it does not exist. Only its owner may have the permission to read or write it.
	// TCP needs a token file.
	TokenFile string `yaml:"token_file"`
	// SharedMemory lets children on the same machine exchange arrays through shared memory. Default
	// true.
	SharedMemory bool `yaml:"shared_memory"`
	// StartTimeout is the maximum time that a child may take to connect and to begin the protocol.
	// Default 2m.
	StartTimeout time.Duration `yaml:"start_timeout"`
	// StepTimeout is the maximum time that a child may take for a step of its environments, or for
	// any other answer. Default 1m.
	StepTimeout time.Duration `yaml:"step_timeout"`
	// ResetTimeout is the maximum time that a child may take to begin an episode: for a reset, and for a step in which
	// an episode may end and the next one begin. A person who resets a robot by hand takes minutes. Default 0: as
	// step_timeout.
	ResetTimeout time.Duration `yaml:"reset_timeout"`
	// MaxRestarts is the maximum number of times that a failing child is replaced in a row, without
	// a finished episode in between. After these, the job stops with a checkpoint. Default 3. With
	// listen: mpi no child is replaced.
	MaxRestarts int `yaml:"max_restarts"`
	// MaxSameErrors is the number of times that simulators may report the same error. Then the job
	// stops with a checkpoint and exit code 1. Errors that differ only in numbers count as the
	// same. Each rank has its own count, and restarts it after 100 episodes without a failure. 0
	// means no limit. Default 10.
	MaxSameErrors int `yaml:"max_same_errors"`
	// MaxLostShare is the maximum share of the last 100 episodes that may be lost because
	// simulators fail. If more are lost, the job stops with a checkpoint and exit code 1. 1 means
	// no limit. Default 0.5.
	MaxLostShare float64 `yaml:"max_lost_share"`
	// Greeting is the simulator's description of itself. The job records this description here;
	// users do not set it.
	Greeting string `yaml:"greeting,omitempty"`
}

// ListenMPI is the value of Listen for simulators in the same MPI job.
const ListenMPI = "mpi"

// MaxSocketPath is the maximum length of a Unix socket's path, in bytes.
const MaxSocketPath = 107

// A Command is a program and its arguments.
type Command []string

// UnmarshalText splits a text at white space.
func (c *Command) UnmarshalText(text []byte) error {
	*c = strings.Fields(string(text))
	return nil
}

// DefaultExternal returns the defaults.
func DefaultExternal() External {
	return External{SharedMemory: true, StartTimeout: 2 * time.Minute, StepTimeout: time.Minute, MaxRestarts: 3,
		MaxSameErrors: 10, MaxLostShare: 0.5}
}

// IsZero reports whether e configures no simulators.
func (e External) IsZero() bool { return len(e.Command) == 0 && e.Listen == "" }

// Same reports whether the simulators of e and f have the same command or address.
func (e External) Same(f External) bool {
	return e.Listen == f.Listen && slices.Equal(e.Command, f.Command)
}

// check validates e, and calls the given function for each rule; see Config.Check. Keys are
// relative to the section external.
func (e External) check(want func(ok bool, key string, value any, want string)) {
	if e.IsZero() {
		return
	}
	want(len(e.Command) == 0 || e.Listen == "", "listen", e.Listen, "a command or listen, not both")
	want(len(e.Command) == 0 || e.Command[0] != "", "command", e.Command, "a program and its arguments")
	network, at, _ := strings.Cut(e.Listen, ":")
	want(e.Listen == "" || e.Listen == ListenMPI || network == "unix" || network == "tcp", "listen", e.Listen,
		"unix:/path, tcp:host:port or mpi")
	want(network != "unix" || at != "" && len(at) <= MaxSocketPath, "listen", e.Listen,
		fmt.Sprintf("unix: and the path of a socket, at most %d bytes; rank R adds .R to it", MaxSocketPath))
	want(network != "tcp" || e.TokenFile != "", "token_file", e.TokenFile,
		"a file for a secret: everybody who reaches a TCP port can connect to it")
	want(e.TokenFile == "" || network == "unix" || network == "tcp", "token_file", e.TokenFile,
		"none but with listen: unix: or tcp:")
	want(e.N >= 0, "n", e.N, "a number of children, or 0 for as many as needed")
	want(e.StartTimeout > 0, "start_timeout", e.StartTimeout, "a duration, as 2m")
	want(e.StepTimeout > 0, "step_timeout", e.StepTimeout, "a duration, as 1m")
	want(e.ResetTimeout == 0 || e.ResetTimeout >= e.StepTimeout, "reset_timeout", e.ResetTimeout,
		"a duration that is not below step_timeout, or 0")
	want(e.MaxRestarts >= 0, "max_restarts", e.MaxRestarts,
		fmt.Sprintf("a number of times, %d say", DefaultExternal().MaxRestarts))
	want(e.MaxSameErrors >= 0, "max_same_errors", e.MaxSameErrors, "a number of times, or 0 for no limit")
	want(e.MaxLostShare >= 0 && e.MaxLostShare <= 1, "max_lost_share", e.MaxLostShare, "a share from 0 to 1")
}
