package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// elsewhere are commands of the pages that other tests run, or that no test can run: a prefix of the line, and the
// reason.
var elsewhere = map[string]string{
	"git clone":          "needs a network",
	"scripts/quickstart": "installs what is missing, and takes a minute",
	"scripts/test":       "runs this test",
	"scripts/build":      "builds with all that the machine has; these tests build with it",
	"scripts/results":    "trains for minutes: TestResultsScript",
	"go mod tidy":        "TestOwnKeys builds that module",
	"go build -o mine":   "TestOwnKeys",
	"./mine":             "TestOwnKeys",
	"go test .":          "TestOwnKeys",
	"go build -o rlinf":  "builds without flags what these tests have built",
	"pip install":        "needs a network",
	"sbatch":             "internal/e2e/slurm",
	"RLB_ADDR=":          "TestPythonListens",
	"export PYTHONPATH=": "sets the path of the lines that follow, which other tests run",
	"PYTHONPATH=":        "TestPythonReadme, TestPythonTutorial",
	"./rlinf -c tanks":   "TestPythonTutorial",
	"python3 ":           "TestTanks",
}

// short are overrides that make a training command take two iterations.
var short = []string{"runner.max_steps=2", "runner.val_check_interval=2", "runner.save_interval=2",
	"env.eval.total_num_envs=4",
	"env.eval.max_steps_per_rollout_epoch=16"}

// TestCommands runs every command of the README, of docs/extending.md and of the pages of the algorithms, for two
// iterations. Commands of a page follow one another in one folder. Those for Open MPI run on goroutine ranks here, with
// the same numbers.
func TestCommands(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "algorithms", "*.md"))
	if err != nil || len(pages) < 12 {
		t.Fatalf("%d pages of algorithms, %v", len(pages), err)
	}
	for _, name := range []string{"README.md", "README.zh-CN.md", "docs/extending.md", "docs/tracing.md",
		"docs/running.md", "docs/tutorials/simulator.md", "docs/tutorials/language.md"} {
		pages = append(pages, filepath.Join(root, name))
	}
	top := test.Must(filepath.Abs(root))(t)
	local.program(t, ".")
	start := addition(t, top)
	for _, page := range pages {
		text := readFile(t, page)
		commands := test.ShellCommands(text)
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{"configs", "clients", "examples", "docs"} {
				test.OK(t, os.Symlink(filepath.Join(top, name), filepath.Join(dir, name)))
			}
			if strings.HasPrefix(filepath.Base(page), "text-") {
				for _, name := range []string{"data", "logs"} {
					test.OK(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(start, name))))
				}
			}
			for _, command := range commands {
				runCommand(t, dir, command)
			}
		})
	}
}

// addition makes a folder with data of addition and initial weights, which the commands on pages of algorithms for
// answers need.
func addition(t *testing.T, top string) string {
	dir := t.TempDir()
	test.OK(t, os.Symlink(filepath.Join(top, "configs"), filepath.Join(dir, "configs")))
	local.ok(t, dir, 0, "data", "addition", "--train", "400", "--test", "40")
	runCommand(t, dir, "./rlinf -c configs/addition_start.yaml")
	return dir
}

var (
	launched   = regexp.MustCompile(`^(mpirun|srun)( -\S+( [a-z0-9]+)?)* (-np|-n) (\d+) \./rlinf`)
	stepsGiven = regexp.MustCompile(`^runner\.max_steps=`)
)

// runCommand runs a line. It adds short to commands that train.
func runCommand(t *testing.T, dir, line string) {
	t.Helper()
	for prefix := range elsewhere {
		if strings.HasPrefix(line, prefix) {
			return
		}
	}
	line = launched.ReplaceAllString(line, "./rlinf -np $5")
	args, ok := strings.CutPrefix(line, "./rlinf ")
	if !ok {
		t.Errorf("%s: neither a call of ./rlinf nor in the list of commands that run elsewhere", line)
		return
	}
	if strings.ContainsAny(args, "|<>;$") {
		t.Errorf("%s: want a command without the shell's signs, so that a test can run it", line)
		return
	}
	words := strings.Fields(args)
	for i := range words {
		words[i] = strings.Trim(words[i], `"'`)
	}
	command := words[0]
	trains := strings.HasPrefix(command, "-") || command == "sweep"
	at := slices.Index(words, "-c")
	if trains && at >= 0 && needsMuJoCo(t, filepath.Join(dir, words[at+1])) {
		t.Logf("%s: needs a build with MuJoCo, not run", line)
		return
	}
	if trains {
		words = append(slices.DeleteFunc(words, stepsGiven.MatchString), short...)
	}
	if r := local.startProgram(t, local.program(t, "."), dir, 0, words...).result(); r.code != 0 {
		t.Errorf("%s: exit code %d\n%s%s", line, r.code, r.stdout, r.stderr)
	}
}

var mujocoTask = regexp.MustCompile(`env_type: (HalfCheetah|Hopper|Walker2d|Ant|Pusher|Reacher|InvertedPendulum|` +
	`Tabletop|mujoco)`)

func needsMuJoCo(t *testing.T, config string) bool {
	t.Helper()
	return mujocoTask.MatchString(readFile(t, config))
}
