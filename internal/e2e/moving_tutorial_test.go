package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestMovingTutorial follows docs/tutorials/moves.md line by line, with shorter runs. The job that moves has slow
// environments, so that it still runs when it gets the request. The requests of the table that are mistakes get the
// answers of the table, all of them and no others.
func TestMovingTutorial(t *testing.T) {
	t.Parallel()
	text, dir := followed(t, "moves.md", "bash", "cmp")
	lines := strings.Split(strings.Join(test.Blocks(text, "bash"), "\n"), "\n")
	mistakes := map[string][]string{} // answers by request
	for _, row := range regexp.MustCompile("(?m)^\\| `({.*?})` \\|(.*) \\|$").FindAllStringSubmatch(text, -1) {
		for _, quoted := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(row[2], -1) {
			mistakes[row[1]] = append(mistakes[row[1]], quoted[1])
		}
	}
	if len(mistakes) != 2 {
		t.Fatalf("mistakes in the table: %q", mistakes)
	}
	for i, line := range lines {
		if strings.Contains(line, "{actor: 0-1, ") {
			for request := range mistakes {
				lines[i] += "\n./rlinf scale logs/moved '" + request + "' >'" + request + "' 2>&1 && exit 9"
			}
		}
		if !strings.HasPrefix(line, "./rlinf -c") {
			continue
		}
		rest, behind := strings.CutSuffix(line, " &")
		if lines[i] = rest + " runner.max_steps=25 runner.val_check_interval=25 runner.save_interval=25"; behind {
			lines[i] += " env.train.step_delay=1ms >job.log 2>&1 & " +
				"until [ -s logs/moved/metrics.jsonl ]; do kill -0 $!; sleep 0.05; done"
		}
	}
	bash := exec.Command("bash", "-euc", strings.Join(lines, "\n"))
	bash.Dir = dir
	out, err := bash.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "job.log"))
		t.Fatalf("%v: %s\n%s", err, out, log)
	}
	for _, want := range []string{": env 0-3 → 4-7\n",
		": actor 0-7 → 0-1:0-7, env 4-7 → 4-5:0-3, rollout 4-7 → 4-5:0-3\n",
		"placement   {actor: '0-1:0-7', env: '4-5:0-3', rollout: '4-5:0-3'}\n", "report.html: open it in a browser\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for request, answers := range mistakes {
		got := readFile(t, filepath.Join(dir, request))
		for _, want := range answers {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", request, want, got)
			}
		}
		if n := strings.Count(got, ": expected "); n != len(answers) && !strings.Contains(got, " -np ") {
			t.Errorf("%s: %d answers, and the page has %d:\n%s", request, n, len(answers), got)
		}
	}
}
