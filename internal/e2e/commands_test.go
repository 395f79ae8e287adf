package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// A printedCase is a job that prints commands in its last lines.
type printedCase struct {
	name   string
	yaml   string
	source string   // the program; "": rlinf
	args   []string // of the job
	steps  int      // of the job
	goesOn string   // the command that resumes the run with more steps
	then   int      // steps of the run after that command
}

// TestPrintedCommands runs each command that a job prints at its end, for every kind of job, and checks the result.
// rlinf status prints the same commands.
func TestPrintedCommands(t *testing.T) {
	t.Parallel()
	const one = "cluster: {component_placement: {'actor,env,rollout': 0}}\n"
	words, prompts := writeTexts(t), sums(t)
	cases := []printedCase{
		{"PPO", good, "", nil, 2, "resume", 4},
		{"PPO that anneals", good, "", []string{"actor.optim.lr_scheduler=linear", "runner.max_epochs=100"}, 2,
			"longer", 4},
		{"SAC", one + asyncTasks[1].yaml, "", []string{"runner.max_epochs=3", "algorithm.staleness_threshold=-1"}, 3,
			"resume", 6},
		{"asynchronous PPO", components("actor: 0-1") + "    env: 2-3\n    rollout: 4\n" + asyncTasks[0].yaml, "",
			[]string{"runner.async=true", "runner.max_steps=2"}, 2, "resume", 4},
		{"fine-tuning", components("actor: 0") + tuning, "", []string{"runner.max_steps=4", "runner.max_epochs=2"}, 4,
			"resume", 8},
		{"fine-tuning by epochs", components("actor: 0") + tuning, "", []string{"runner.max_epochs=1"}, 5, "resume",
			10},
		{"fine-tuning that validation ends", components("actor: 0") + tuning, "",
			[]string{"runner.early_stop={enabled: true, patience: 1, min_delta: 100}"}, 8, "resume", 15},
		{"GRPO of a language model", components(collocated) + reasoning, "",
			[]string{startWeights, "algorithm.adv_type=grpo", "runner.max_steps=2"}, 2, "resume", 4},
		{"GRPO of a language model that anneals", components(collocated) + reasoning, "",
			[]string{startWeights, "algorithm.adv_type=grpo", "runner.max_steps=2",
				"actor.optim.lr_scheduler=cosine"}, 2, "longer", 4},
		{"VLA", one + vision, "./internal/e2e/testdata/squares",
			append([]string{"env.train.total_num_envs=12", "env.eval.total_num_envs=6", "runner.max_steps=1"},
				visions[0].overrides...), 1, "resume", 2},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			switch {
			case strings.HasPrefix(c.name, "fine-tuning"):
				dir = words
			case strings.HasPrefix(c.name, "GRPO"):
				dir = prompts
			}
			c.try(t, dir)
		})
	}
}

// TestPrintedCommandsOfSweeps: a sweep prints where its files are. rlinf status of one of its runs prints commands that
// resume this run.
func TestPrintedCommandsOfSweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", good)
	r := local.ok(t, dir, 0, "sweep", "-c", "job.yaml", "--seeds", "2")
	_, folder, ok := strings.Cut(strings.TrimSpace(r.stdout), "table.md and curves.svg are in ")
	for _, name := range []string{"table.md", "curves.svg"} {
		if _, err := os.Stat(filepath.Join(dir, folder, name)); !ok || err != nil {
			t.Errorf("%v of\n%s", err, r.stdout)
		}
	}
	run := filepath.Join(folder, "seed_2")
	told := local.ok(t, dir, 0, "status", run)
	for _, label := range []string{"evaluate", "inspect", "resume"} {
		cmd := exec.Command("sh", "-c", printedCommand(told.stdout, label))
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %v\n%s\nof\n%s", label, err, out, told.stdout)
		}
	}
	test.Equal(t, len(readMetrics(t, filepath.Join(dir, run))), 4, "steps after the resume")
	if all := local.ok(t, dir, 0, "status"); strings.Count(all.stdout, folder) != 2 {
		t.Errorf("status lists\n%s", all.stdout)
	}
}

func (c printedCase) try(t *testing.T, dir string) {
	if c.source == "" {
		c.source = "."
	}
	writeFile(t, dir, "job.yaml", c.yaml)
	log := "logs of " + c.name // a name that needs quotes
	args := append([]string{"-c", "job.yaml", "runner.logger.log_path=" + log, "runner.logger.experiment_name=it"},
		c.args...)
	program := local.program(t, c.source)
	j := local.startProgram(t, program, dir, 0, args...)
	r := j.result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	told := local.startProgram(t, program, dir, 0, "status", filepath.Join(log, "it")).result()
	if told.stdout == "" || !strings.HasSuffix(r.stdout, told.stdout) {
		t.Errorf("status says\n%s\nthe job said\n%s", told.stdout, r.stdout)
	}
	run := filepath.Join(dir, log, "it")
	if n := len(readMetrics(t, run)); n != c.steps {
		t.Fatalf("%d steps, want %d", n, c.steps)
	}
	labels := []string{"evaluate", "inspect", c.goesOn}
	for _, label := range labels {
		command := printedCommand(told.stdout, label)
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if command == "" || err != nil {
			t.Errorf("%s: %q: %v\n%s\nof\n%s", label, command, err, out, told.stdout)
			continue
		}
		says := map[string]string{"evaluate": "eval/", "inspect": "report.html: open it in a browser",
			"resume": "resuming from ", "longer": "done after step "}[label]
		if !strings.Contains(string(out), says) {
			t.Errorf("%s: no %q in\n%s", command, says, out)
		}
		end := run
		if label == "longer" {
			if n := len(readMetrics(t, run)); n != c.steps {
				t.Errorf("%s: the run has %d steps now, of %d", command, n, c.steps)
			}
			end += "-4"
		}
		if n := len(readMetrics(t, end)); label == c.goesOn && (n != c.then || readStatus(t, end) != runfolder.Done) {
			t.Errorf("%s: STATUS %s, %d steps, want %d", command, readStatus(t, end), n, c.then)
		}
	}
}

// printedCommand returns the command of the last line with a label; "": none.
func printedCommand(text, label string) (command string) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label+" "); ok {
			command = strings.TrimSpace(rest)
		}
	}
	return command
}
