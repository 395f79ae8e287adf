package answer

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/reward/verify"
)

func grader(t *testing.T, name string, c Config) *Grader {
	t.Helper()
	g := test.Must(Builtin().New(Setup{Type: name, Config: c, Seed: 7}))(t)
	return g
}

func grade(t *testing.T, g *Grader, r Response) Grade {
	t.Helper()
	grades := make([]Grade, 1)
	test.OK(t, g.Grade(grades, []Response{r}))
	return grades[0]
}

func TestExact(t *testing.T) {
	q := &Question{Answer: []int32{4, 5, 0}, Solutions: []string{"42", "forty-two"}}
	for _, c := range []struct {
		name string
		r    Response
		want Grade
	}{
		{"the tokens", Response{Question: q, Tokens: []int32{4, 5, 0}, Ended: true, Text: "?"}, Grade{1, verify.Right}},
		{"the tokens with another end", Response{Question: q, Tokens: []int32{4, 5, 3}, Ended: true, Text: "?"},
			Grade{1, verify.Right}},
		{"the tokens, cut off", Response{Question: q, Tokens: []int32{4, 5, 6}, Text: "?"}, Grade{0, verify.Wrong}},
		{"the text in other tokens", Response{Question: q, Tokens: []int32{7, 0}, Ended: true, Text: "42"},
			Grade{1, verify.Right}},
		{"another solution", Response{Question: q, Tokens: []int32{8, 0}, Ended: true, Text: "forty-two"},
			Grade{1, verify.Right}},
		{"more than the answer", Response{Question: q, Tokens: []int32{4, 5, 5}, Text: "422"}, Grade{0, verify.Wrong}},
		{"the text, cut off", Response{Question: q, Tokens: []int32{7}, Text: "42"}, Grade{0, verify.Wrong}},
		{"nothing", Response{Question: q, Tokens: []int32{0}, Ended: true}, Grade{0, verify.Wrong}},
	} {
		test.Equal(t, grade(t, grader(t, "exact", DefaultConfig()), c.r), c.want, "%s", c.name)
	}
}

// TestMath: rewards have RLinf's signs, and answers that can be parsed get the format's reward, too.
func TestMath(t *testing.T) {
	q := &Question{Solutions: []string{`\frac{1}{2}`}}
	for text, want := range map[string][2]Grade{
		`so \boxed{0.5}`:          {{5, verify.Right}, {5.25, verify.Right}},
		`\boxed{0.5} \boxed{0.6}`: {{-5, verify.Wrong}, {-4.75, verify.Wrong}},
		`0.5`:                     {{-5, verify.Unparsable}, {-5, verify.Unparsable}},
		`\boxed{0.5`:              {{-5, verify.Unparsable}, {-5, verify.Unparsable}},
		`\boxed{}`:                {{-5, verify.Unparsable}, {-5, verify.Unparsable}},
	} {
		for i, format := range []float32{0, 0.25} {
			g := grader(t, "math", Config{RewardScale: 5, FormatReward: format})
			if got := grade(t, g, Response{Question: q, Text: text}); got != want[i] {
				t.Errorf("%s with a format_reward of %v: %v, want %v", text, format, got, want[i])
			}
		}
	}
}

func TestCountdown(t *testing.T) {
	g := grader(t, "countdown", DefaultConfig())
	for answer, want := range map[string]verify.Outcome{
		"12-7=5 5*3=15":        verify.Right,
		"12+3=15 15-7=8":       verify.Wrong, // another target
		"12+3=15":              verify.Wrong, // 7 is left
		"12-7=5 5*3=14":        verify.Wrong, // false
		"12-7=4 4*3=15":        verify.Wrong,
		"12-7=5 5+10=15":       verify.Wrong, // there is no 10
		"12-7=5 12+3=15":       verify.Wrong, // 12 is used up
		"5*3=15 12-7=5":        verify.Wrong, // there is no 5 yet
		"12-7=5 5*3=15 ":       verify.Unparsable,
		"12-7=5  5*3=15":       verify.Unparsable,
		"12-7=5 5*3=15 15=15":  verify.Unparsable,
		"12-7=+5 5*3=15":       verify.Unparsable,
		"3-7=-4 12--4=16":      verify.Unparsable,
		"9999999999-1=1":       verify.Unparsable,
		"15":                   verify.Unparsable,
		"":                     verify.Unparsable,
		"12-7=5 5*3=15 1/0=15": verify.Wrong,
	} {
		r := Response{Question: &Question{Text: "3 7 12:15="}, Text: answer, Ended: true}
		reward := float32(0)
		if want == verify.Right {
			reward = 1
		}
		if got := grade(t, g, r); got != (Grade{reward, want}) {
			t.Errorf("%q: %v, want %v", answer, got, want)
		}
		r.Ended = false
		if got := grade(t, g, r); got != (Grade{0, verify.Unparsable}) {
			t.Errorf("%q, cut off: %v", answer, got)
		}
	}
	for _, task := range []string{"", "3 7 12=", "3 a:15=", ":15=", "3 7:="} {
		got := grade(t, g, Response{Question: &Question{Text: task}, Text: "3+7=10", Ended: true})
		if got.Outcome != verify.Unparsable {
			t.Errorf("task %q: %v", task, got)
		}
	}
	whole := Response{Question: &Question{Text: "2 7 1:3="}, Text: "7/2=3 3*1=3", Ended: true}
	if got := grade(t, g, whole); got.Outcome != verify.Wrong {
		t.Errorf("7/2=3: %v", got)
	}
}

// TestRandomReward: chance decides rewards by the question and the sample alone. Outcomes stay.
func TestRandomReward(t *testing.T) {
	g := grader(t, "exact", Config{RewardScale: 1, RandomReward: true})
	q := &Question{Answer: []int32{1}}
	ones, changed := 0, 0
	for i := range 2000 {
		q.Number = int64(i / 8)
		r := Response{Question: q, Sample: i % 8, Tokens: []int32{1}}
		first := grade(t, g, r)
		r.Tokens = []int32{2}
		if second := grade(t, g, r); second.Reward != first.Reward || second.Outcome != verify.Wrong ||
			first.Outcome != verify.Right {
			t.Fatalf("sample %d: %v, and with another answer %v", i, first, second)
		}
		ones += int(first.Reward)
		r.Sample = (i + 1) % 8
		if grade(t, g, r).Reward != first.Reward {
			changed++
		}
	}
	if ones < 900 || ones > 1100 || changed < 900 || changed > 1100 {
		t.Errorf("%d ones and %d changes in 2000", ones, changed)
	}
}

// TestOwnRule: a user's program can add a rule, and Grade returns the error of that rule.
func TestOwnRule(t *testing.T) {
	rules := Builtin()
	type keys struct {
		Limit int `yaml:"limit" doc:"Letters of an answer at most."`
	}
	Register(rules, "short", keys{Limit: 3}, func(_ Setup, k keys) (Rule, error) {
		return Each(func(r *Response) Grade {
			if len(r.Text) <= k.Limit {
				return Grade{1, verify.Right}
			}
			return Grade{0, verify.Wrong}
		}), nil
	})
	rules.Add("broken", func(Setup) (Rule, error) {
		return func([]Grade, []Response) error { return errors.New("no idea") }, nil
	})
	g, err := rules.New(Setup{Type: "short", Config: DefaultConfig(), Own: rules.Own("short")})
	test.OK(t, err)
	for text, want := range map[string]float32{"abc": 1, "abcd": 0} {
		if got := grade(t, g, Response{Text: text}); got.Reward != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if g, err = rules.New(Setup{Type: "broken", Config: DefaultConfig()}); err != nil {
		t.Fatal(err)
	}
	if err := g.Grade(make([]Grade, 1), make([]Response, 1)); err == nil || err.Error() != "no idea" {
		t.Errorf("a rule's error is %v", err)
	}
	if _, err := rules.New(Setup{Type: "maths"}); err == nil ||
		!strings.Contains(err.Error(), "exact, math, countdown, program, short, broken") {
		t.Errorf("an unknown rule: %v", err)
	}
	if rules.PartWith("limit") != "short" {
		t.Errorf("limit is a key of %q", rules.PartWith("limit"))
	}
}
