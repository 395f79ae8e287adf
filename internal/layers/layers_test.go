package layers

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

const module = "github.com/rlinf/rlinf"

// A layer says what the packages at path may import besides the standard library. All names are patterns of the go
// command: "env" is that package, and "env/..." also the packages below it; "." is the main package, "C" is cgo.
type layer struct {
	path  string
	may   []string
	tests []string // what test files may also import, apart from their own package
	why   string
}

const (
	cli  = "github.com/urfave/cli/v2"
	yaml = "gopkg.in/yaml.v3"
	sys  = "golang.org/x/sys/..."
	// Means, deviations and distributions.
	gonum = "gonum.org/v1/gonum/stat/..."
)

// The rows stand in the order of the house, the highest first: a package imports from its own row and from rows below.
// The longest path that matches a package applies.
var layers = []layer{
	{".", []string{"roles", "algo/...", "policy/...", "reward/...", "env/..."}, []string{"..."},
		"main only hands the lists of parts to roles"},
	{"examples/...", []string{"roles", "algo/...", "policy/...", "reward/...", "env/...", "collectives", "spmd/...",
		"tensor"}, nil,
		"examples use what users of the library can"},
	{"roles", []string{"roles/classifier", "roles/cli", "roles/config", "roles/embodied/...", "roles/language",
		"roles/loop",
		"roles/member", "roles/task", "roles/trainer", "env", "policy", "spmd", "internal/config"}, []string{"..."},
		"a facade: names for users, and the tasks for the command line; nothing below imports it"},
	{"roles/internal/rolestest", []string{"roles/config", "roles/planner", "algo", "collectives", "policy/...",
		"reward", "env/...", "internal/philox", "spmd", "spmd/local", "tensor"}, nil,
		"what tests of several packages share"},
	{"roles/cli/...", []string{"roles/advice", "roles/ask", "roles/config", "roles/embodied/play", "roles/job",
		"roles/planner", "roles/loop", "roles/task", "roles/trainer", "roles/session", "roles/cli/...", "algo",
		"collectives/...", "env", "env/external", "internal/...", "policy/export", "policy/lm/...", "scripts/slurm",
		"spmd/...", "tensor", cli, sys},
		[]string{"..."},
		"commands; they reach workers through sessions alone"},
	{"roles/cli/language", []string{"roles/cli/args", "roles/config", "roles/job", "roles/loop", "roles/language/plan",
		"roles/member", "internal/checkpoint", "internal/durable", "env/text", "policy/lm/...", "policy/nn", "spmd",
		"spmd/local", "tensor", cli}, []string{"..."},
		"commands of language models; their flags have bounds, and of jobs they use the memory that there is"},
	{"roles/cli/experience", []string{"roles/config", "roles/cli/args", "roles/embodied/dataset",
		"reward/frames", "algo",
		"internal/lerobot", "internal/printable", cli},
		[]string{"..."},
		"commands for demonstrations read and write files; no job is needed"},
	{"roles/cli/manual", []string{"roles/config", "roles/cli/args", "env", "internal/config", cli, yaml},
		[]string{"..."},
		"what commands and keys mean follows from their definitions; no job is needed"},
	{"roles/cli/args", []string{"roles/config", "roles/job", "roles/task", "internal/config", "internal/durable",
		"internal/metrics", "internal/printable", "internal/results", "spmd/...", cli}, []string{"..."},
		"what commands share: how they read their arguments and show their work"},
	{"roles/emulate/...", []string{"roles/config", "roles/embodied", "roles/emulate", "roles/loop", "roles/planner",
		"roles/session", "roles/task", "algo", "collectives", "collectives/bench/stats", "env", "policy", "policy/nn",
		"reward", "internal/plot", "spmd", "spmd/local", "tensor", gonum, sys},
		[]string{"roles/advice", "roles/internal/rolestest", "internal/results/resultstest"},
		"runs the whole program on ranks that are not there"},
	{"roles/ask", []string{"roles/config", "roles/loop", "roles/session", "roles/task", "algo", "env",
		"internal/checkpoint", "internal/durable", "internal/metrics", "internal/runfolder", "spmd", "spmd/local",
		"tensor"}, []string{"..."},
		"reads the folders of runs, and repeats them by sessions"},
	{"roles/session", []string{"roles/advice", "roles/config", "roles/job", "roles/loop", "roles/task", "algo",
		"collectives", "env", "env/external", "internal/checkpoint", "internal/durable", "internal/gpu",
		"internal/metrics", "internal/moves", "internal/printable", "internal/runfolder", "internal/trace", "spmd"},
		[]string{"..."},
		"a session begins and ends a job for any command, and knows its task by an interface"},
	{"roles/advice", []string{"roles/config", "roles/job", "roles/loop", "roles/mesh", "roles/planner/...",
		"roles/planner", "roles/task", "env", "internal/checkpoint", "internal/config", "internal/durable",
		"internal/metrics", "internal/runfolder", "spmd", "spmd/local"}, []string{"..."},
		"from a configuration to a plan and back; it knows its task by an interface, and runs jobs by a function"},
	{"roles/trainer", []string{"roles/config", "roles/embodied/play", "algo", "env", "policy", "internal/philox",
		"internal/programs", "tensor"}, []string{"..."},
		"training in one process needs neither ranks nor workers"},
	{"roles/classifier", []string{"roles/config", "roles/job", "roles/member", "roles/state", "roles/loop",
		"roles/planner", "roles/planner/probe", "roles/task", "algo", "policy/nn", "policy/resnet", "reward/frames",
		"internal/figures",
		"internal/metrics", "internal/runfolder", "spmd", "tensor"}, []string{"..."},
		"a task: it leads its workers, and knows no other task"},
	{"roles/embodied", []string{"roles/config", "roles/job", "roles/member", "roles/loop", "roles/planner",
		"roles/task",
		"roles/embodied/...", "algo", "env", "env/external", "policy", "internal/lerobot", "internal/metrics",
		"internal/runfolder", "spmd", "tensor"}, []string{"..."},
		"a task: it leads its workers, and knows no other task"},
	{"roles/embodied/worker", []string{"roles/config", "roles/job", "roles/member", "roles/state", "roles/weights",
		"roles/loop", "roles/embodied/plan", "roles/embodied/play", "algo", "collectives", "env", "policy/...",
		"reward", "spmd", "tensor", sys}, []string{"..."},
		"workers do what the plan says, when a runner calls them"},
	{"roles/embodied/costs", []string{"roles/config", "roles/embodied/plan", "roles/embodied/play", "roles/planner",
		"roles/planner/probe", "algo", "env", "reward", "policy", "tensor", gonum}, []string{"..."},
		"calls what workers call, without ranks"},
	{"roles/embodied/plan", []string{"roles/config", "roles/job", "roles/member", "roles/embodied/dataset",
		"roles/embodied/play", "algo", "env", "env/external", "policy", "policy/graph", "policy/nn",
		"policy/nn/kernel/device", "reward", "internal/figures", "internal/gpu", "internal/lerobot", "tensor"},
		[]string{"..."},
		"the plan of a job follows from its configuration, and knows no worker"},
	{"roles/embodied/dataset", []string{"algo", "env", "internal/durable", "internal/lerobot", "internal/tables",
		"tensor"}, []string{"..."},
		"a folder is demonstrations in other words; no configuration and no rank has a part in it"},
	{"roles/embodied/play", []string{"algo", "env", "policy", "internal/philox", "internal/programs", "internal/video",
		"tensor"}, []string{"..."},
		"a policy plays environments in one goroutine; it knows no configuration, no rank and no channel"},
	{"roles/language", []string{"roles/mesh", "roles/config", "roles/job", "roles/member", "roles/loop",
		"roles/planner",
		"roles/task", "roles/language/...", "algo", "policy/lm", "policy/lm/engine", "reward/answer",
		"internal/metrics", "internal/runfolder", "spmd", "tensor"}, []string{"..."},
		"two tasks: they lead their workers, and know no other task"},
	{"roles/language/worker", []string{"roles/mesh", "roles/config", "roles/job", "roles/member", "roles/state",
		"roles/weights",
		"roles/loop",
		"roles/language/plan", "roles/language/exam", "roles/language/deal", "algo", "collectives", "policy/...",
		"reward/...", "spmd", "tensor"}, []string{"..."},
		"workers do what the plan says, when a runner calls them"},
	{"roles/language/costs", []string{"roles/mesh", "roles/job", "roles/language/plan", "roles/planner",
		"roles/planner/probe",
		"algo", "reward/answer", "policy/lm", "policy/lm/engine", "policy/nn", "tensor"}, []string{"..."},
		"calls what workers call, without ranks"},
	{"roles/language/plan", []string{"roles/mesh", "roles/config", "roles/job", "roles/state", "roles/language/deal",
		"roles/language/exam", "algo", "env", "spmd", "env/text", "internal/gpu", "policy/...",
		"reward/answer", "tensor"},
		[]string{"..."},
		"the plan of a job follows from its configuration, and knows no worker"},
	{"roles/language/exam", []string{"algo", "policy/lm/engine", "reward/answer", "reward/verify"}, []string{"..."},
		"an examination needs a model and questions, and no rank"},
	{"roles/language/deal", []string{"policy/lm/engine"}, []string{"internal/philox"},
		"who answers which prompt follows from messages; no rank and no clock has a part in it"},
	{"roles/task", []string{"roles/config", "roles/job", "roles/loop", "roles/planner", "collectives", "env",
		"internal/metrics", "internal/printable", "policy/graph", "spmd"},
		[]string{"..."},
		"what a session asks of a task is an interface"},
	{"roles/weights", []string{"roles/config", "roles/job", "collectives", "policy/nn", "spmd", "tensor"},
		[]string{"..."},
		"weights travel in one way, whatever reads them; the loop has no part in it"},
	{"roles/loop", []string{"roles/config", "roles/job", "roles/member", "roles/state", "algo", "collectives", "env",
		"env/external", "internal/checkpoint", "internal/config", "internal/durable", "internal/lerobot",
		"internal/metrics", "internal/moves", "internal/runfolder", "internal/trace", "internal/video", "spmd",
		"tensor"},
		[]string{"..."},
		"a loop knows a plan by an interface, and neither a task nor the process"},
	{"roles/member", []string{"roles/mesh", "roles/config", "roles/job", "algo", "collectives", "policy/nn",
		"policy/nn/kernel/device", "internal/gpu", "spmd", "tensor"},
		[]string{"..."},
		"what workers share knows no task"},
	{"roles/state", []string{"roles/job", "collectives", "policy/nn", "spmd", "tensor"}, []string{"..."},
		"what workers have, and how it travels, in any task"},
	{"roles/planner/probe", []string{"roles/planner", "algo", "collectives", "spmd", "spmd/local", "tensor", gonum},
		[]string{"..."},
		"what this machine can do, whatever job will run on it"},
	{"roles/planner", []string{"roles/mesh", "collectives", "collectives/bench/stats", "internal/durable",
		"internal/heap", "spmd"}, []string{"..."},
		"a plan follows from a machine, a profile and a layout; no job and no clock has a part in it"},
	{"roles/job", []string{"roles/config", "roles/mesh", "collectives", "internal/checkpoint",
		"internal/durable", "internal/gpu", "policy/nn", "spmd", "spmd/mpi", "tensor", sys}, []string{"..."},
		"what every task needs of a world knows no task"},
	{"roles/config", []string{"algo", "env", "params", "policy", "policy/lm", "policy/resnet", "reward",
		"reward/answer", "roles/mesh",
		"spmd", "tensor", "internal/config", "internal/durable", "internal/programs", yaml},
		[]string{"env/...", "roles/internal/rolestest"},
		"what a file says is known before there is a job"},
	{"roles/mesh", []string{"spmd"}, nil, "who has which part of a model follows from numbers"},
	{"algo/...", []string{"algo", "policy/...", "params", "internal/durable", "internal/philox", "tensor"},
		[]string{"env/...", yaml, sys}, "algorithms never see a rank, a communicator or a channel"},
	{"reward/frames", []string{"internal/durable", "internal/philox", "tensor"}, nil,
		"labelled images follow from recordings"},
	{"reward", []string{"policy", "policy/nn", "policy/resnet", "env", "params", "reward/answer", "tensor"}, nil,
		"what transitions are worth follows from them, and from a network's values"},
	{"reward/answer", []string{"reward/verify", "env", "env/external", "params", "internal/philox",
		"internal/programs"}, nil,
		"what answers are worth follows from texts and tokens; no model and no rank has a say"},
	{"reward/verify", []string{"golang.org/x/text/unicode/norm"}, nil,
		"whether an answer is right follows from two texts; no token, model or clock has a say"},
	{"env/text", []string{"policy/lm/tokenizer", "internal/philox", "internal/tables"}, nil,
		"text tasks are files in, token ids out; a tokenizer knows no model"},
	{"policy/export", []string{"policy", "policy/graph", "policy/nn", "env", "internal/philox", "tensor",
		"google.golang.org/protobuf/encoding/protowire"}, nil,
		"a trained policy becomes files of other formats; no checkpoint and no rank has a part in it"},
	{"policy/...", []string{"policy/...", "env", "params", "internal/philox", "tensor"}, []string{yaml},
		"of env a policy needs the spaces; it never sees a rank"},
	{"policy/nn/kernel/blas", []string{"C", "gonum.org/v1/gonum/blas", "gonum.org/v1/netlib/..."},
		[]string{"policy/nn/kernel", "gonum.org/v1/gonum/..."}, "the border to OpenBLAS"},
	{"policy/lm/tokenizer", []string{"internal/durable", "policy/lm/tokenizer/jinja",
		"golang.org/x/text/unicode/norm"}, nil,
		"text in, ids out: a tokenizer knows its files, no model"},
	{"policy/lm/tokenizer/jinja", nil, nil, "a template follows from its text and values"},
	{"policy/lm/...", []string{"policy/lm", "policy/graph", "policy/nn/...", "internal/durable", "internal/philox",
		"tensor"},
		[]string{"policy/lm/lmtest", sys},
		"language models know layers and files, neither policies nor environments"},
	{"policy/nn/kernel/device/devicetest", []string{"internal/ptx"}, nil, "a device without a card, for tests"},
	{"policy/nn/kernel/device", []string{"policy/nn", "policy/nn/kernel", "tensor", sys}, []string{"internal/gpu",
		"internal/ptx", "policy/nn/kernel/device/devicetest"},
		"kernels of a device are Ops of layers; a device is an interface"},
	{"policy/nn/...", []string{"policy/nn/...", "policy/graph", "internal/philox", "tensor"}, nil,
		"layers know neither policies nor environments"},
	{"policy/graph", nil, nil, "a description of a policy knows no layer"},
	{"policy/nn/kernel/...", []string{sys}, nil, "kernels compute on slices"},
	{"env/all", []string{"env/..."}, nil, "the list of environments"},
	{"env/mujoco/...", []string{"env", "internal/philox", "tensor", "C"}, []string{"env/...", yaml},
		"the only package that sees MuJoCo"},
	{"env/external", []string{"env", "internal/durable", "internal/printable", "internal/programs", "tensor", sys},
		[]string{"env/..."},
		"the bridge sees frames, whatever carries them"},
	{"env/...", []string{"env", "params", "internal/philox", "tensor"}, []string{"env/...", yaml},
		"environments know nothing of policies, nor of each other"},
	{"collectives/internal/ranks", []string{"collectives/...", "spmd/..."}, nil,
		"a program of tests, which opens the transport"},
	{"collectives/...", []string{"collectives/...", "internal/durable", "spmd", "tensor", sys}, []string{"spmd/..."},
		"collectives run over any transport"},
	{"collectives/bench/report", []string{"collectives/bench/stats", "internal/plot", gonum}, []string{"..."},
		"reports are text and pictures"},
	{"collectives/bench/stats", []string{gonum}, nil, "statistics are arithmetic; distributions are gonum's"},
	{"spmd/mpi/...", []string{"spmd/...", "tensor", "C", "github.com/sbromberger/gompi", sys}, nil,
		"the only package that sees MPI"},
	{"spmd/...", []string{"spmd", "spmd/internal/...", "internal/heap", "tensor", sys}, []string{"spmd/..."},
		"spmd moves tensors and does not know what for"},
	{"clients/...", nil, []string{"env/...", "tensor"}, "clients are in other languages; only their tests are in Go"},
	{"internal/philox", nil, nil, "random numbers are arithmetic"},
	{"internal/heap", nil, nil, "an order is arithmetic"},
	{"internal/video/videotest", nil, nil, "takes films apart, for tests"},
	{"internal/report/reporttest", []string{"internal/programs", "internal/report", "internal/trace", "internal/video"},
		nil, "makes runs, for tests of pages here and in a browser"},
	{"internal/report/browser", nil, []string{"internal/report/...", "github.com/chromedp/..."},
		"a module of its own, so that no user fetches a browser's driver"},
	{"internal/results/resultstest", nil, nil, "compares runs, for tests"},
	{"internal/lerobot", []string{"internal/durable", "internal/programs", "internal/tables"}, nil,
		"what is in which file; it knows no transition"},
	{"internal/tables", []string{"internal/durable", "github.com/parquet-go/parquet-go/..."}, nil,
		"the only package that sees Parquet; it knows rows and columns, whatever they mean"},
	{"internal/gpu", []string{"internal/ptx", "C", "gorgonia.org/cu"}, nil, "the only package that sees CUDA"},
	{"internal/ptx", nil, nil, "what a text of PTX computes follows from it and from memory"},
	{"internal/e2e/...", nil, []string{"..."}, "tests of the whole"},
	{"internal/digests", nil, []string{"roles", "algo", "policy", "reward", "env/...", "tensor", sys},
		"tests of the whole, by its command line alone"},
	{"internal/config", []string{"params", "internal/durable", "internal/printable", yaml}, nil,
		"reads every section, users' own parts too, and knows none of them"},
	{"internal/layers", nil, nil, "reads the tree as text"},
	{"internal/report", []string{"internal/checkpoint", "internal/durable", "internal/metrics", "internal/moves",
		"internal/plot", "internal/results", "internal/runfolder", "internal/timeline", "internal/trace",
		"internal/video", yaml},
		[]string{"internal/programs", "internal/report/reporttest"},
		"a page says what a run's folder says; no configuration and no worker has a part in it"},
	{"internal/video", []string{"golang.org/x/image/...", "internal/programs"}, []string{"internal/video/..."},
		"pictures in, files out"},
	{"internal/programs", []string{sys}, nil, "starts programs, whatever they are for"},
	{"internal/results", []string{"internal/checkpoint", "internal/durable", "internal/metrics", "internal/moves",
		"internal/plot", "internal/printable", "internal/runfolder", gonum, yaml}, nil,
		"reads what runs have left, and draws it"},
	{"internal/timeline", []string{"internal/trace", gonum}, nil, "what follows from a trace is a pure function"},
	{"internal/trace", []string{"internal/durable", sys}, nil,
		"records and reads the times of any worker; it asks the clock"},
	{"internal/runfolder", []string{"internal/durable", sys, yaml}, nil,
		"a run's folder, and the program and machine of a run"},
	{"internal/metrics", []string{"internal/durable", "internal/printable", sys}, nil,
		"asks the terminal for its width"},
	{"internal/printable", nil, nil, "a text is safe to show by its characters alone"},
	{"internal/...", []string{"internal/durable", "tensor", yaml}, nil, "roles knows these, not they it"},
	{"scripts/slurm", nil, nil, "batch scripts, and their text for other jobs"},
	{"scripts/...", nil, nil, "tools of the scripts stand alone"},
	{"internal/figures", nil, nil, "writes numbers for any package"},
	{"internal/test", nil, nil, "all tests may use it"},
	{"tensor/...", nil, nil, "tensor is the bottom"},
	{"params", nil, nil, "the keys of a user's own part are a struct for any reader"},
}

func TestImports(t *testing.T) {
	for _, v := range importViolations(t, os.DirFS("../.."), layers) {
		t.Error(v)
	}
}

func TestImportRulesBite(t *testing.T) {
	file := func(imports ...string) *fstest.MapFile {
		text := "package p\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return &fstest.MapFile{Data: []byte(text)}
	}
	violations := func(table []layer, root fs.FS) (short []string) {
		for _, v := range importViolations(t, root, table) {
			v, _, _ = strings.Cut(v, ":")
			short = append(short, v)
		}
		return short
	}
	got := violations(layers, fstest.MapFS{
		"algo/a.go":         file("fmt", module+"/policy/nn", module+"/spmd"),
		"algo/a_test.go":    file(module+"/env/classic", module+"/algo", module+"/collectives"),
		"env/classic/e.go":  file(module+"/env", module+"/env/all"),
		"spmd/mpi/m.go":     file("C", "github.com/sbromberger/gompi"),
		"spmd/local/l.go":   file("C"),
		"roles/job/j.go":    file("github.com/sbromberger/gompi", module+"/env/all", module+"/roles/loop"),
		"roles/new/n.go":    file("fmt"),
		"roles/loop/p.go":   file(module + "/roles"),
		"main.go":           file(module),
		"new/n.go":          file("fmt"),
		"tensor/testdata/t": file(module + "/env"),
		"tensor/_old/t.go":  file(module + "/env"),
		"clients/go.mod":    file(),
		"clients/client.go": file("example.org/other"),
		"policy/tags_x.go": {
			Data: []byte("//go:build never\n\npackage policy\n\nimport _ \"" + module + "/roles\"\n")},
		"tensor/x/a_test.go": file(module+"/tensor/x", "golang.org/x/sys/unix"),
	})
	want := []string{
		"algo imports spmd", "the tests of algo import collectives", "env/classic imports env/all", ". imports .",
		"new is in no layer", "policy imports roles",
		"roles/job imports github.com/sbromberger/gompi", "roles/job imports env/all", "roles/job imports roles/loop",
		"roles/loop imports roles", "roles/new is in no layer", "spmd/local imports C",
		"the tests of tensor/x import golang.org/x/sys/unix",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	high, low := file(module+"/low/in"), file(module+"/high", module+"/low/in")
	got = violations([]layer{{"high", []string{"low/..."}, nil, ""}, {"low/...", []string{"high", "low/..."}, nil, ""}},
		fstest.MapFS{"high/h.go": high, "low/l.go": low, "low/l_test.go": low})
	if want := []string{"low imports high, which is above it"}; !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// importViolations compares the imports of every Go file with the table.
func importViolations(t *testing.T, root fs.FS, table []layer) (found []string) {
	strange := map[string]bool{}
	imports(t, root, func(name string, list []string) {
		from, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
		at := rowOf(table, from)
		if at < 0 {
			if !strange[from] {
				found = append(found, from+" is in no layer: give it a line in the table of internal/layers")
			}
			strange[from] = true
			return
		}
		l, may, subject := table[at], table[at].may, from+" imports"
		if test {
			may = slices.Concat(l.may, l.tests, []string{from, "internal/test"})
			subject = "the tests of " + from + " import"
		}
		for _, to := range list {
			if !slices.ContainsFunc(may, func(p string) bool { return matches(p, to) }) {
				found = append(found, fmt.Sprintf("%s %s: in %s: may import %s: %s", subject, to, name, orNothing(may),
					l.why))
			} else if row := rowOf(table, to); row >= 0 && row < at && !test {
				found = append(found, fmt.Sprintf("%s %s, which is above it: in %s", subject, to, name))
			}
		}
	})
	return found
}

// rowOf returns the row of a package: the longest path that matches it. It returns -1 if there is none.
func rowOf(table []layer, name string) int {
	row, longest := -1, -1
	for i, l := range table {
		if n := len(strings.TrimSuffix(l.path, "/...")); matches(l.path, name) && n > longest {
			row, longest = i, n
		}
	}
	return row
}

// imports calls visit with every Go file and its imports, in the notation of the table, without the standard library.
func imports(t *testing.T, root fs.FS, visit func(name string, list []string)) {
	walk(t, root, func(name string, text []byte) {
		if path.Ext(name) != ".go" {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Errorf("read imports: %v", err)
			return
		}
		var list []string
		for _, i := range f.Imports {
			to, _ := strconv.Unquote(i.Path.Value)
			first, _, _ := strings.Cut(to, "/")
			if to == module {
				to = "."
			} else if rest, ours := strings.CutPrefix(to, module+"/"); ours {
				to = rest
			} else if to != "C" && !strings.Contains(first, ".") {
				continue
			}
			if to != "internal/figures" { // any package may write numbers
				list = append(list, to)
			}
		}
		visit(name, list)
	})
}

func matches(pattern, name string) bool {
	prefix, below := strings.CutSuffix(pattern, "...")
	return name == strings.TrimSuffix(prefix, "/") || below && strings.HasPrefix(name, prefix)
}

func orNothing(may []string) string {
	if len(may) == 0 {
		return "nothing"
	}
	return strings.Join(may, ", ")
}

// Words of reinforcement learning, in the singular. spmd and collectives do the work of any program, so they do not use
// these words.
var learning = []string{"reward", "policy", "env", "environment", "action", "observation", "obs", "episode",
	"trajectory", "advantage", "actor", "critic", "rollout", "agent"}

// exempt are identifiers that mean the environment of a process.
var exempt = []string{"LookupEnv"}

func TestWords(t *testing.T) {
	for _, v := range wordViolations(t, os.DirFS("../..")) {
		t.Error(v)
	}
}

func TestWordRuleBites(t *testing.T) {
	got := wordViolations(t, fstest.MapFS{
		"spmd/a.go": {Data: []byte("package spmd\n\n// the env may be named here\nvar globalEnvs, getenv " +
			"= \"batch\"+os.LookupEnv(\"\"), \"to the actor\"\n")},
		"spmd/a_test.go":       {Data: []byte("package spmd\n\nvar rollout int\n")},
		"spmd/spmdtest/c.go":   {Data: []byte("package spmdtest\n\nvar rollout int\n")},
		"spmd/mpi/shim.h":      {Data: []byte("/* in the\n environment */ int rl_reward(void); // the policy\n")},
		"collectives/sub/c.go": {Data: []byte("package sub\n\nfunc sumOfPolicies() {}\n")},
		"roles/r.go":           {Data: []byte("package roles\n\nvar env int\n")},
	})
	want := []string{"collectives/sub/c.go: sumOfPolicies", `spmd/a.go: "to the actor"`, "spmd/a.go: globalEnvs",
		"spmd/mpi/shim.h: rl_reward"}
	slices.Sort(got)
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	cWord    = regexp.MustCompile(`\w+`)
)

// wordViolations finds words of reinforcement learning in the identifiers and strings of spmd and collectives. Comments
// may use them in examples. Tests and packages for tests (spmdtest) may use them anywhere.
func wordViolations(t *testing.T, root fs.FS) (found []string) {
	look := func(name, text string) {
		if slices.Contains(exempt, text) {
			return
		}
		for _, w := range words(text) {
			if slices.Contains(learning, w) {
				found = append(found,
					fmt.Sprintf("%s: %s: %q is a word of reinforcement learning, of which spmd and collectives know "+
						"nothing", name, text, w))
			}
		}
	}
	walk(t, root, func(name string, text []byte) {
		if !matches("spmd/...", path.Dir(name)) && !matches("collectives/...", path.Dir(name)) {
			return
		}
		switch path.Ext(name) {
		case ".go":
			if !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(path.Dir(name), "test") {
				goWords(name, text, look)
			}
		case ".c", ".h":
			for _, w := range cWord.FindAllString(cComment.ReplaceAllString(string(text), " "), -1) {
				look(name, w)
			}
		}
	})
	return slices.Compact(found)
}

// goWords calls look with every identifier and string of a Go file.
func goWords(name string, text []byte, look func(name, text string)) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile(name, -1, len(text)), text, nil, 0)
	for {
		_, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return
		case token.IDENT, token.STRING:
			look(name, literal)
		}
	}
}

// words cuts text into its words in lower case and in the singular: "GlobalEnvs of policies" is global, env, of,
// policy.
func words(text string) (list []string) {
	var word []rune
	end := func() {
		if len(word) == 0 {
			return
		}
		w := strings.ToLower(string(word))
		if stem, ok := strings.CutSuffix(w, "ies"); ok {
			w = stem + "y"
		} else if w != "obs" {
			w = strings.TrimSuffix(w, "s")
		}
		list, word = append(list, w), word[:0]
	}
	lower := false
	for _, r := range text {
		if !unicode.IsLetter(r) || unicode.IsUpper(r) && lower {
			end()
		}
		if unicode.IsLetter(r) {
			word = append(word, r)
		}
		lower = unicode.IsLower(r)
	}
	end()
	return list
}

// walk calls visit with every file of the module that the go command would read.
func walk(t *testing.T, root fs.FS, visit func(name string, text []byte)) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, noModule := fs.Stat(root, path.Join(name, "go.mod"))
			if base := d.Name(); name != "." && (noModule == nil || base == "testdata" ||
				strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".c", ".h"}, path.Ext(name)) {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err == nil {
			visit(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
