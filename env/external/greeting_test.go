package external

import (
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestGreetingErrors: the error of a greeting names the fault, and has no control characters.
func TestGreetingErrors(t *testing.T) {
	const obs, action = `"obs":[{"name":"state","kind":"box","dtype":"f32","shape":[3]}]`,
		`"action":{"kind":"discrete","n":2}`
	goals := func(goal string) string {
		return `"name":"a","obs":[{"name":"achieved_goal","kind":"box","dtype":"f32","shape":[2]},` +
			`{"name":"desired_goal","kind":"box","dtype":"f32","shape":[2]}],"goal":` + goal
	}
	for _, tt := range []struct{ members, want string }{
		{`"name":"ALE/Pong v5",` + obs, ""},
		{`"name":"a","num_envs":2.0,"obs":[{"name":"x","kind":"box","dtype":"f32","shape":[2.0]}]`, ""},
		{`"name":"a","num_envs":2.5,` + obs, "num_envs: number 2.5, expected a whole number"},
		{`"name":"\u001b[2Jcleared",` + obs,
			`greeting of "\x1b[2Jcleared": name: expected 1 to 256 bytes that can be printed`},
		{`"name":"two\nlines",` + obs, "can be printed"},
		{`"name":"",` + obs, "can be printed"},
		{`"name":"a","obs":[{"name":"x","kind":"box","dtype":"f32","shape":[2],"low":[0,null],"high":1}]`, ""},
		{`"name":"a","obs":[{"name":"x","kind":"box","dtype":"f32","shape":[2],"high":"1"}]`,
			`greeting of "a": obs x: high: expected a number, null, or an array of them`},
		{`"name":"a","obs":[{"name":"x","kind":"box","dtype":"f32","shape":[2],"low":-1e400}]`,
			`greeting of "a": obs x: low: expected a number, null`},
		{`"name":"a","obs":[{"name":"action_mask","kind":"box","dtype":"u8","shape":[3]}]`,
			"greeting: a: observation action_mask: U8[3]: expected a box of U8[2]"},
		{`"name":"a",` + obs + `,"info":["success","depth","success"]`, `greeting of "a": info: two figures "success"`},
		{`"name":"a","obs":[{"name":"field","kind":"box","dtype":"f32","shape":[268435456]}]`,
			"obs field: shape [268435456], expected at most 6 positive numbers and 16777216 elements"},
		{`"name":"a","obs":[{"name":"field","kind":"box","dtype":"u8","shape":[16777216]},{"name":"x",` +
			`"kind":"discrete","n":2}]`, "obs x: more than 16777216 elements in all observations"},
		{goals(`{"threshold":0.5,"reward":"sparse","terminates":true}`), ""},
		{goals(`{"threshold":0.5,"reward":"my rule"}`), `goal: reward "my rule": expected 1 to 64 letters`},
		{goals(`{"threshold":-1,"reward":"sparse"}`), `greeting of "a": goal: threshold -1: expected a distance`},
		{goals(`{"threshold":"1","reward":"sparse"}`), "goal.threshold: string, expected a number"},
		{`"name":"a",` + obs + `,"goal":{"threshold":1,"reward":"sparse"}`,
			`greeting of "a": goal: expected the observations achieved_goal and desired_goal, vectors of F32`},
		{`"name":"a","num_envs":100000,"obs":[{"name":"field","kind":"box","dtype":"f32","shape":[64,64]}]`,
			`greeting of "a": num_envs: 100000 environments of a in one child have arrays of 3277400064 bytes, ` +
				`expected at most 2147483648`},
	} {
		_, err := readGreeting([]byte(`{"v":1,` + action + "," + tt.members + "}"))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.members, err, tt.want)
		}
	}
	for text, want := range map[string]string{
		`[]`:                           "greeting: array, expected an object",
		`{"v":"1"}`:                    "greeting: v: string, expected a whole number",
		`{"v":1,"name":2}`:             "greeting: name: number, expected a text",
		`{"v":1,"max_steps":0.5}`:      "greeting: max_steps: number 0.5, expected a whole number",
		`{"v":1,"render":1}`:           "greeting: render: number, expected true or false",
		`{"v":1,"obs":[{"shape":3}]}`:  "greeting: obs.shape: number, expected an array",
		`{"v":1,"obs":["state"]}`:      "greeting: obs: string, expected an object",
		`{"v":1,"action":{"low":-Inf}`: "greeting: no JSON at byte 25: invalid character 'I' in numeric literal",
		`{"v":1`:                       "greeting: no JSON at byte 6: unexpected end of JSON input",
	} {
		if _, err := readGreeting([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	g := test.Must(readGreeting([]byte(`{"v":1,"name":"a",` + obs + "," + action + "}")))(t)
	for n, want := range map[int]string{1 << 20: "",
		1<<20 + 1: "1048577 environments for one child, expected at most 1048576"} {
		if err := g.fits(n); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d environments: %v, want %q", n, err, want)
		}
	}
}

// TestChanged: other observations and actions of a simulator are described in numbers.
func TestChanged(t *testing.T) {
	greeting := func(obs, action string) string {
		return `{"v":1,"name":"Boat","obs":[` + obs + `],"action":` + action + `,"num_envs":0,"max_steps":9}`
	}
	state := func(n string) string { return `{"name":"state","kind":"box","dtype":"f32","shape":[` + n + `]}` }
	const goal = `,{"name":"goal","kind":"box","dtype":"f32","shape":[2]}`
	const two, three = `{"kind":"discrete","n":2}`, `{"kind":"discrete","n":3}`
	for _, c := range []struct{ then, now, want string }{
		{greeting(state("17"), two), greeting(state("17"), two), ""},
		{"", greeting(state("17"), two), ""},
		{greeting(state("17"), two), greeting(state("18"), two), "the simulator shows 18 numbers, the run saw 17"},
		{greeting(state("17")+goal, two), greeting(state("18")+goal, two),
			"the simulator shows 18 numbers in state, the run saw 17"},
		{greeting(state("17")+goal, two), greeting(state("17"), two),
			"the simulator does not show goal, which the run saw"},
		{greeting(state("17"), two), greeting(state("17")+goal, two),
			"the simulator shows goal, which the run did not see"},
		{greeting(state("17"), two), greeting(state("2,3"), three), "the simulator shows an array of [2 3], the run " +
			"saw 17; the simulator takes Discrete(3), the run chose from Discrete(2)"},
	} {
		test.Equal(t, Changed(c.then, c.now), c.want, "from %s\nto %s:\n", c.then, c.now)
	}
}
