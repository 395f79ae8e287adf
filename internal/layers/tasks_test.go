package layers

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// asksForTask matches code that asks which task a job has: a comparison with a task's name, or a question to the
// configuration.
var asksForTask = regexp.MustCompile(`\.(FineTunes|Reasons)\(\)|\bTask(SFT|Reasoning|Embodied|EmbodiedEval)\b|` +
	`\bTaskType\b[^\n]*(==|!=|switch)|(==|!=|case) "(sft|reasoning|embodied|embodied_eval)"`)

// mayAsk are the folders of the tasks and of the configuration.
var mayAsk = []string{"roles/config/", "roles/embodied/", "roles/language/", "internal/layers/"}

// TestNobodyAsksForTheTask: outside of the tasks and the configuration no code of roles, of its commands or of results
// asks which task a job has.
func TestNobodyAsksForTheTask(t *testing.T) {
	files := 0
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			!strings.HasPrefix(name, "roles/") && !strings.HasPrefix(name, "internal/") {
			return
		}
		for _, folder := range mayAsk {
			if strings.HasPrefix(name, folder) {
				return
			}
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if m := asksForTask.FindString(line); m != "" && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				t.Errorf("%s:%d: %s asks for the task: let the plan or the task answer", name, i+1, m)
			}
		}
	})
	if files < 100 {
		t.Errorf("%d files looked at", files)
	}
}
