package runfolder

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/internal/durable"
)

const provenanceFile = "provenance.json"

// Provenance describes a start of a run: the program, the machine and the settings, so that the run can be repeated or
// explained. Describe sets the fields about this process. The caller of Describe sets the other fields.
type Provenance struct {
	Started  time.Time         `json:"started"`
	Project  string            `json:"project,omitempty"`
	Args     []string          `json:"args"`
	Build    Build             `json:"build"`
	Job      string            `json:"job,omitempty"` // the scheduler's name of the job
	MaxProcs int               `json:"gomaxprocs"`
	Env      map[string]string `json:"env"` // variables that configure MPI, Slurm, the fabric, Go and BLAS

	Transport string   `json:"transport"`
	Library   string   `json:"library,omitempty"`  // version string of the MPI library
	Launcher  string   `json:"launcher,omitempty"` // "" if there is none
	Threads   string   `json:"threads,omitempty"`  // MPI thread level
	Shared    string   `json:"shared,omitempty"`   // shared memory of a rank and its node, or why there is none
	Hosts     []string `json:"hosts"`              // host of each rank
	Binding   []string `json:"binding"`            // CPUs of each rank; see Binding
	Quota     []int    `json:"quota,omitempty"`    // cores granted to all ranks of the host; 0: no limit
	GPUs      []string `json:"gpus,omitempty"`     // GPU and driver of each rank; "" if the rank uses none
	Resumed   string   `json:"resumed,omitempty"`  // checkpoint from which the run resumed

	Forked string `json:"forked,omitempty"` // checkpoint of the parent run if this run is a fork; Resumed is its copy
	// Inputs has the SHA-256 of the files and folders that the configuration names: see HashInputs.
	Inputs map[string]string `json:"inputs,omitempty"`

	Iterations int64 `json:"iterations,omitempty"` // number of iterations planned for the whole run; 0 if unknown
}

// A Build describes the build of this binary.
type Build struct {
	Version  string `json:"version"`            // version of the module; "(devel)" for a checkout without a tag
	Revision string `json:"revision,omitempty"` // git revision; with "+dirty" if the checkout had changes
	Tags     string `json:"tags,omitempty"`     // separated by commas
	Go       string `json:"go"`
	// Platform names the system and the processor, such as linux/amd64, with the microarchitecture level if one was
	// chosen.
	Platform string `json:"platform"`
	Vectors  string `json:"vectors,omitempty"` // the vector instructions of the processor: see Vectors
}

// Describe returns a Provenance with the facts about this process.
func Describe(job string) Provenance {
	return Provenance{
		Started:  time.Now().Truncate(time.Millisecond),
		Args:     os.Args,
		Build:    ReadBuild(),
		Job:      job,
		MaxProcs: runtime.GOMAXPROCS(0),
		Env:      steering(os.Environ()),
	}
}

// ReadBuild returns the build information that the Go toolchain recorded in this binary.
func ReadBuild() Build {
	b := Build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Vectors: Vectors()}
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

// NoVectors is the result of Vectors without vector instructions. Products then run in portable Go.
const NoVectors = "none that the kernels use: products run in portable Go"

// Vectors returns the vector instructions of this processor that the kernels use. All processors with such instructions
// give the same numbers. All processors without them give the same numbers, too.
func Vectors() string {
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL:
		return "AVX-512"
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		return "AVX2"
	}
	return NoVectors
}

// String returns the facts in one line.
func (b Build) String() string {
	all := strings.Join([]string{b.Version, b.Revision, b.Tags, b.Go, b.Platform, b.Vectors}, " ")
	return strings.Join(strings.Fields(all), " ")
}

// steering selects the environment variables that affect a job. It leaves out variables that may hold secrets, such as
// SLURM_JWT.
func steering(environ []string) map[string]string {
	prefixes := []string{"OMPI_", "PMIX_", "PMI_", "MPICH_", "MPIR_CVAR_", "HYDRA_", "SLURM_", "RLINF_", "UCX_", "FI_",
		"OMP_", "OPENBLAS_", "GO", "CUDA_VISIBLE_"}
	secrets := []string{"JWT", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"}
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		has := func(part string) bool { return strings.Contains(name, part) }
		if slices.ContainsFunc(prefixes, begins) && !slices.ContainsFunc(secrets, has) {
			env[name] = value
		}
	}
	return env
}

// Binding returns the CPUs on which this process may run, such as 0-3,8. It returns "" if they are unknown.
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

// BinaryID returns an identifier of this program: a hash of the size and of the beginning of its file. The beginning
// contains the build ID. BinaryID returns "" if it cannot read the file.
func BinaryID() string {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer f.Close()
	about, err := f.Stat()
	if err != nil {
		return ""
	}
	sum := sha256.New()
	fmt.Fprintln(sum, about.Size())
	if _, err := io.CopyN(sum, f, 64<<10); err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// LastStart returns the newest entry of provenance.json in the run folder at path. ok is false if there is none.
func LastStart(path string) (p Provenance, ok bool) {
	starts := starts(path)
	if len(starts) == 0 {
		return p, false
	}
	return starts[len(starts)-1], true
}

// Parent returns the folder of the run from which the run in the folder at path was forked, and the step of the
// checkpoint. ok is false if the run is no fork.
func Parent(path string) (folder string, step int64, ok bool) {
	for _, p := range starts(path) {
		if p.Forked != "" {
			step, _ = strconv.ParseInt(strings.TrimPrefix(filepath.Base(p.Forked), "global_step_"), 10, 64)
			return filepath.Dir(filepath.Dir(p.Forked)), step, true
		}
	}
	return "", 0, false
}

// Resumes returns the checkpoint from which each start of the run in the folder at path continued. It is "" for a start
// without a checkpoint.
func Resumes(path string) (checkpoints []string) {
	for _, p := range starts(path) {
		checkpoints = append(checkpoints, p.Resumed)
	}
	return checkpoints
}

// starts returns the entries of provenance.json, or nil if they cannot be read.
func starts(path string) (all []Provenance) {
	text, err := durable.ReadFile(filepath.Join(path, provenanceFile), durable.Text)
	if err != nil || json.Unmarshal(text, &all) != nil {
		return nil
	}
	return all
}

// AddProvenance appends p to provenance.json, which has one entry for each start of the run.
func (f *Folder) AddProvenance(p Provenance) error {
	path := filepath.Join(f.path, provenanceFile)
	var starts []json.RawMessage
	if old, err := durable.ReadFile(path, durable.Text); err == nil {
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
