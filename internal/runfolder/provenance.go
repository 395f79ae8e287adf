package runfolder

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

const provenanceFile = "provenance.json"

// Provenance says what ran, where and how: enough to run it again, or to see why it cannot be.
// Describe fills in the facts about this process. The caller adds the rest.
type Provenance struct {
	Started  time.Time         `json:"started"`
	Project  string            `json:"project,omitempty"`
	Args     []string          `json:"args"`
	Build    Build             `json:"build"`
	Job      string            `json:"job,omitempty"` // the scheduler's name for the job
	MaxProcs int               `json:"gomaxprocs"`
	Env      map[string]string `json:"env"` // variables that steer MPI, Slurm, the fabric, Go and BLAS

	Transport string   `json:"transport"`
	Library   string   `json:"library,omitempty"`  // the MPI library's version string
	Launcher  string   `json:"launcher,omitempty"` // "" when there was none
	Threads   string   `json:"threads,omitempty"`  // the MPI thread level
	Shared    string   `json:"shared,omitempty"`   // memory that a rank can share with its node, or why it cannot
	Hosts     []string `json:"hosts"`              // of each rank
	Binding   []string `json:"binding"`            // the CPUs of each rank; see Binding
	Resumed   string   `json:"resumed,omitempty"`  // the checkpoint that the run went on from

	Iterations int64 `json:"iterations,omitempty"` // of the whole run; 0: no end is known
}

// A Build is what this binary was made of.
type Build struct {
	Version  string `json:"version"`            // the module's; "(devel)" when built in a checkout without a tag
	Revision string `json:"revision,omitempty"` // git's; with "+dirty" when the checkout had changes
	Tags     string `json:"tags,omitempty"`     // separated by commas
	Go       string `json:"go"`
	Platform string `json:"platform"` // linux/amd64, and the microarchitecture level where one was chosen
}

// Describe returns the provenance of this process.
func Describe(job string) Provenance {
	return Provenance{
		Started:  time.Now().Round(time.Second),
		Args:     os.Args,
		Build:    ReadBuild(),
		Job:      job,
		MaxProcs: runtime.GOMAXPROCS(0),
		Env:      steering(os.Environ()),
	}
}

// ReadBuild returns what the Go toolchain recorded in this binary.
func ReadBuild() Build {
	b := Build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	dirty := ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				dirty = "+dirty"
			}
		case "-tags":
			b.Tags = s.Value
		case "GOAMD64", "GOARM64":
			b.Platform += " " + s.Value
		}
	}
	if b.Revision != "" {
		b.Revision += dirty
	}
	return b
}

// steering picks the variables that change how a job runs, without those that may hold a secret, as
// SLURM_JWT does.
func steering(environ []string) map[string]string {
	prefixes := []string{"OMPI_", "PMIX_", "PMI_", "MPICH_", "MPIR_CVAR_", "HYDRA_", "SLURM_", "RLINF_", "UCX_", "FI_",
		"OMP_", "OPENBLAS_", "GO", "CUDA_VISIBLE_"}
	secrets := []string{"JWT", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"}
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if hasAny(name, prefixes, strings.HasPrefix) && !hasAny(name, secrets, strings.Contains) {
			env[name] = value
		}
	}
	return env
}

func hasAny(s string, parts []string, has func(s, part string) bool) bool {
	for _, p := range parts {
		if has(s, p) {
			return true
		}
	}
	return false
}

// Binding returns the CPUs that this process may run on, as 0-3,8; "" where the system does not
// say.
func Binding() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return strings.TrimSpace(list)
		}
	}
	return ""
}

// LastStart returns what the newest start of the run in the folder path wrote in provenance.json; ok is
// false where there is none.
func LastStart(path string) (p Provenance, ok bool) {
	var starts []Provenance
	text, err := durable.ReadFile(filepath.Join(path, provenanceFile))
	if err != nil || json.Unmarshal(text, &starts) != nil || len(starts) == 0 {
		return p, false
	}
	return starts[len(starts)-1], true
}

// AddProvenance adds p to provenance.json, a list with an entry for each start of the run.
func (f *Folder) AddProvenance(p Provenance) error {
	path := filepath.Join(f.path, provenanceFile)
	var starts []json.RawMessage
	if old, err := durable.ReadFile(path); err == nil {
		if err := json.Unmarshal(old, &starts); err != nil {
			return fmt.Errorf("run folder: %s: %w; move it away", path, err)
		}
	} else if !os.IsNotExist(err) {
		return fmt.Errorf("run folder: %w", err)
	}
	this, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("run folder: provenance: %w", err)
	}
	all, err := json.MarshalIndent(append(starts, this), "", "  ")
	if err != nil {
		return fmt.Errorf("run folder: provenance: %w", err)
	}
	return f.write(provenanceFile, append(all, '\n'))
}
