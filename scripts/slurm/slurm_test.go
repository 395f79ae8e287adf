package slurm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// A script has all values of its Resources, in the right places.
func TestScriptForAnotherJob(t *testing.T) {
	got := Script("hetjob", Resources{
		Name: "my run/1", Time: "1-00", Config: "a b.yaml", Overrides: []string{"x=1", "y=[1, 2]"},
		Parts: []NodeSet{{Nodes: 3, TasksPerNode: 4, CPUsPerTask: 5, GPUsPerNode: 6},
			{Nodes: 7, TasksPerNode: 8, CPUsPerTask: 9}},
	})
	var lines []string
	for line := range strings.Lines(got) {
		if strings.HasPrefix(line, "#SBATCH") || strings.HasPrefix(line, "CONFIG") ||
			strings.HasPrefix(line, "OVERRIDES") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	want := []string{
		"#SBATCH --job-name=my-run-1", "#SBATCH --output=%x-%j.out",
		"#SBATCH --nodes=3", "#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=5", "#SBATCH --gpus-per-node=6",
		"#SBATCH --time=1-00",
		"#SBATCH --signal=B:USR1@120", "#SBATCH --no-requeue", "#SBATCH hetjob",
		"#SBATCH --nodes=7", "#SBATCH --ntasks-per-node=8", "#SBATCH --cpus-per-task=9", "#SBATCH --time=1-00",
		"CONFIG=${CONFIG:-'a b.yaml'}",
		"OVERRIDES=(x=1 'y=[1, 2]')                       # key=value, over those of CONFIG",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// The shell gives back quoted values, in both places where a script has them.
func TestQuote(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("these are scripts for bash: ", err)
	}
	words := []string{"a=1", "", "two words", "it's", `"$HOME" \ $(false)`, "a}b", "a)b", "l=[1, 2]", "ü*?~#;&|<>",
		"line\nbreak"}
	script := "set -eu\nOVERRIDES=(" + quoteAll(words) + ")\nprintf '%s\\0' \"${OVERRIDES[@]}\"\n"
	for _, w := range words {
		script += "unset X; X=${X:-" + quote(w) + "}; printf '%s\\0' \"$X\"\n"
	}
	out, err := exec.Command(bash, "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, script)
	}
	got := strings.Split(string(out), "\x00")
	if want := slices.Concat(words, words, []string{""}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// train-requeue.sbatch queues itself again only if its job was stopped before its end, and not for ever.
func TestRequeue(t *testing.T) {
	for _, c := range []struct {
		code     int // exit code of the launcher
		signal   bool
		restarts string
		again    bool
	}{
		{75, false, "", true}, {75, true, "19", true}, {75, true, "20", false}, {75, false, "21", false},
		{0, true, "19", true}, {0, true, "20", false}, {0, false, "", false},
		{1, true, "", false}, {1, false, "", false}, {129, true, "", false}, {134, true, "", false},
		{143, true, "", false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			job := requeued(t, fmt.Sprintf("trap 'exit %d' USR1\n>started\nwhile %v; do sleep 0.01; done\nexit %[1]d\n",
				c.code, c.signal), "echo \"$@\" >again\nkill $PPID\n")
			job.Env = append(job.Env, "SLURM_RESTART_COUNT="+c.restarts)
			test.OK(t, job.Start())
			if c.signal {
				for { // until both have their traps
					status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", job.Process.Pid))
					if _, err := os.Stat(filepath.Join(job.Dir, "started")); err == nil && catchesUSR1.Match(status) {
						break
					}
					time.Sleep(time.Millisecond)
				}
				job.Process.Signal(syscall.SIGUSR1)
			}
			job.Wait()
			again, _ := os.ReadFile(filepath.Join(job.Dir, "again"))
			if code := job.ProcessState.ExitCode(); (string(again) == "requeue 7\n") != c.again ||
				!c.again && code != c.code {
				t.Errorf("exit code %d, scontrol %q, want exit code %d, or requeue: %v", code, again, c.code, c.again)
			}
		})
	}
}

// A signal that comes after the launcher has ended does not change the exit code of train-requeue.sbatch.
func TestRequeueSignaledLate(t *testing.T) {
	job := requeued(t, "exit 75\n", "kill -USR1 $PPID\nexit 1\n") // it can't be queued again
	out, _ := job.CombinedOutput()
	if code := job.ProcessState.ExitCode(); code != 75 {
		t.Errorf("exit code %d, want 75\n%s", code, out)
	}
}

// requeued returns a command that runs train-requeue.sbatch in its own folder, with these shell scripts as the launcher
// and as scontrol.
func requeued(t *testing.T, launcher, scontrol string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"launch": "#!/bin/sh\n" + launcher, "scontrol": "#!/bin/sh\n" + scontrol,
		"script": read("requeue")} {
		test.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o777))
	}
	job := exec.Command("bash", "script")
	job.Dir = dir
	job.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LAUNCHER=launch", "SLURM_NTASKS=1",
		"SLURM_JOB_ID=7")
	return job
}

// catchesUSR1 matches the status of a process that catches signal 10: bit 9 of the mask.
var catchesUSR1 = regexp.MustCompile(`(?m)^SigCgt:.*[2367abef]..$`)

// The scripts are short, and describe the same variables in the same words.
func TestScriptsAreShort(t *testing.T) {
	said := map[string]string{} // by knob, its comment
	for _, name := range Names() {
		text := read(name)
		if n := strings.Count(text, "\n"); n > 40 {
			t.Errorf("%s has %d lines, want 40 at most", name, n)
		}
		for line := range strings.Lines(text) {
			m := knob.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil || m[1] == "PMI" {
				continue
			}
			if before, ok := said[m[1]]; ok && before != m[2] {
				t.Errorf("%s says of %s %q, another script %q", name, m[1], m[2], before)
			}
			said[m[1]] = m[2]
		}
	}
	for _, k := range []string{"CONFIG", "OVERRIDES", "RLINF", "LAUNCHER"} {
		if _, ok := said[k]; !ok {
			t.Errorf("no script has the knob %s: %s", k, fmt.Sprint(said))
		}
	}
}
