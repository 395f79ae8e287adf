package plan

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env/text"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
)

// TestQuestions: questions that cannot be graded are errors with file and line, before work starts. Questions that a
// rule may read in an unexpected way have a note.
func TestQuestions(t *testing.T) {
	set := func(prompt string, solutions ...[]string) *text.Dataset {
		var d text.Dataset
		for i, s := range solutions {
			d.Samples = append(d.Samples, text.Sample{IDs: []int32{1},
				Source: &text.Origin{Prompt: prompt, Answers: s, File: "t.jsonl", Line: i + 1}})
		}
		return &d
	}
	for _, c := range []struct {
		name, rule string
		set        *text.Dataset
		err, notes string
	}{
		{"good ones", "math", set("", []string{"4"}, []string{`\boxed{4}`}, []string{"", "4"}, []string{"yes"}), "",
			""},
		{"bad ones", "math", set("", []string{"4"}, []string{`\frac{1}{`}, []string{""}, []string{`so \boxed{4`},
			[]string{"a", "{", "}"}, []string{`\,`}, []string{" "}),
			`t.jsonl:2: answer "\\frac{1}{": its braces do not match; t.jsonl:3: answer "": it is empty: expected an ` +
				`answer; ` +
				`t.jsonl:4: answer "so \\boxed{4": its braces do not match; and 2 more`, ""},
		{"worked ones", "math", set("", []string{"4"}, []string{"2+2=4\n#### 4"}, []string{"4 ? 5"},
			[]string{"1+2\n#### 3"}), "",
			"2 of 4 answers are worked text, of which the answer after #### counts, the first in t.jsonl:2; " +
				"1 of 4 answers are no mathematics, so only the same text is right, the first in t.jsonl:3"},
		{"an empty end", "math", set("", []string{"2+2=4\n####"}), "it is empty", ""},
		{"the same with another rule", "exact", set("", []string{""}), "", ""},
		{"countdown", "countdown", set("3 7 12:15=", []string{""}), "", ""},
		{"countdown without target", "countdown", set("3 7 12", []string{""}),
			`t.jsonl:1: prompt "3 7 12": expected numbers and a target`, ""},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
		cfg.Reward.RewardType = c.rule
		d := &Draft{Plan: &Plan{Job: &job.Job{Config: cfg}}, found: cfg.Findings()}
		d.checkQuestions("data.train_data_paths", c.set)
		text := ""
		if err := d.found.Err(); err != nil {
			text = err.Error()
		}
		if !strings.Contains(text, c.err) || (text == "") != (c.err == "") {
			t.Errorf("%s: %s, expected %s", c.name, text, c.err)
		}
		notes := strings.ReplaceAll(strings.Join(d.notes, "; "), "data.train_data_paths: ", "")
		for note := range strings.SplitSeq(c.notes, "; ") {
			if !strings.Contains(notes, note) || c.notes == "" && notes != "" {
				t.Errorf("%s: notes %s, expected %s", c.name, notes, c.notes)
			}
		}
	}
}

// TestLongPrompts: too long prompts are a mistake, or they are left out and counted, unless no prompt is left.
func TestLongPrompts(t *testing.T) {
	for _, c := range []struct {
		filter  bool
		lengths []int
		dropped int
		want    string
	}{
		{false, []int{3, 4}, 0, ""},
		{false, []int{3, 6, 5}, 0, "at least 6, the longest prompt, or data.filter_prompt_by_length"},
		{true, []int{3, 6, 5}, 2, ""},
		{true, []int{6, 5}, 2, "at least 6, the longest prompt: all prompts are left out"},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
		cfg.Data.MaxPromptLength, cfg.Data.FilterPromptByLength = 4, c.filter
		d, set := &Draft{Plan: &Plan{Job: &job.Job{Config: cfg}}, found: cfg.Findings()}, &text.Dataset{}
		for _, n := range c.lengths {
			set.Samples = append(set.Samples, text.Sample{IDs: make([]int32, n)})
		}
		d.keepPrompts(set)
		said := ""
		if err := d.found.Err(); err != nil {
			said = err.Error()
		}
		if set.Dropped != c.dropped || !strings.HasSuffix(said, c.want) || (said == "") != (c.want == "") {
			t.Errorf("%+v: %d left out, %q", c, set.Dropped, said)
		}
	}
}
