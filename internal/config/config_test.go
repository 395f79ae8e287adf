package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// job is a small schema with every kind of field.
type job struct {
	Name   string         `yaml:"name"`
	Run    run            `yaml:"run"`
	Sizes  []int          `yaml:"sizes"`
	Limits map[string]int `yaml:"limits"`
	Any    any            `yaml:"any"`
	Model  *model         `yaml:"model"`
	Places Map[place]     `yaml:"places"`
	Words  Words          `yaml:"words"`
}

// place is a struct that may also be written as one word.
type place struct {
	Where string `yaml:"where"`
	Count int    `yaml:"count"`
}

func (p *place) UnmarshalText(text []byte) error {
	if p.Where = string(text); p.Where == "nowhere" {
		return errors.New("expected a place")
	}
	return nil
}

type run struct {
	Epochs int           `yaml:"max_epochs"`
	Rate   float32       `yaml:"rate"`
	Seed   uint64        `yaml:"seed"`
	Fast   bool          `yaml:"fast"`
	Time   time.Duration `yaml:"max_time"`
	Mode   mode          `yaml:"mode"`
	Level  int8          `yaml:"level"`
	common `yaml:",inline"`
}

type common struct {
	Group int `yaml:"group_size"`
}

type model struct {
	Hidden []int `yaml:"hidden"`
	Dim    int   `yaml:"dim"`
}

// mode decodes itself: its words for true and false are on and off.
type mode string

func (m *mode) UnmarshalText(text []byte) error {
	*m = mode(strings.ToUpper(string(text)))
	return nil
}

func defaults() job {
	return job{Name: "default", Run: run{Epochs: 3, Rate: 0.5, common: common{Group: 8}}}
}

// write writes files, given as name and content in turns, into a new folder. It returns the folder.
func write(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i+1 < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		test.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
		test.OK(t, os.WriteFile(path, []byte(files[i+1]), 0o666))
	}
	return dir
}

// load decodes text with overrides. Messages do not have the folder's name.
func load(t testing.TB, text string, overrides ...string) (job, []string) {
	return loadWith(t, Options{}, overrides, "job.yaml", text)
}

func loadWith(t testing.TB, options Options, overrides []string, files ...string) (job, []string) {
	t.Helper()
	dir := write(t, files...)
	cfg := defaults()
	tree, err := Load(filepath.Join(dir, files[0]), overrides, options)
	var check *Check
	if err == nil {
		check = tree.Decode(&cfg)
		err = check.Err()
	}
	return cfg, lines(err, dir)
}

func lines(err error, dir string) []string {
	if err == nil {
		return nil
	}
	return strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
}

func want(t *testing.T, got []string, lines ...string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(lines, "\n") {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(lines, "\n  "))
	}
}

func TestDecode(t *testing.T) {
	cfg, errs := load(t, `
name: 12
run:
  max_epochs: 1e3
  rate: 3e-4
  seed: 18446744073709551615
  fast: true
  max_time: 01:30:00
  mode: true
  level: -128
  group_size: 0x10
sizes: [1, 2_000]
limits: {a: 1, b.c: 2}
any: [x, {y: 1.5}]
model: {hidden: []}
places: {z: here, a: {where: there, count: 2}, m: 7}
words: a, b,c
`)
	want(t, errs)
	expect := job{
		Name: "12", Run: run{1000, 3e-4, 1<<64 - 1, true, 90 * time.Minute, "TRUE", -128, common{16}},
		Sizes: []int{1, 2000}, Limits: map[string]int{"a": 1, "b.c": 2},
		Any: []any{"x", map[string]any{"y": 1.5}}, Model: &model{Hidden: []int{}},
		Places: Map[place]{{"z", place{Where: "here"}}, {"a", place{"there", 2}}, {"m", place{Where: "7"}}},
		Words:  Words{"a", "b", "c"},
	}
	if !reflect.DeepEqual(cfg, expect) {
		t.Errorf("got  %+v\nwant %+v", cfg, expect)
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	cfg, errs := load(t, "run:\nsizes: null\nmodel: ~\nname: null\n")
	want(t, errs)
	expect := defaults()
	expect.Name = ""
	if !reflect.DeepEqual(cfg, expect) {
		t.Errorf("got  %+v\nwant %+v", cfg, expect)
	}
}

func TestEveryErrorAtOnce(t *testing.T) {
	_, errs := load(t, `
name: [a]
run:
  max_epochs: many
  rate: 0.5
  level: 128
  seed: -1
  fast: 1
  max_time: 90
  group_sice: 4
sizes: 3
limits: {a: 1.5}
model:
  hidden: [1, x]
  max_epochs: 3
zzz: 1
places: {a: nowhere, b: {count: x, size: 1}}
words: {}
run2: {rate: 1}
`, "run.max_epoch=3", "name", "=3", "run.rate=1e99", "+model.dim=.nan")
	want(t, errs,
		`command line: name: expected a value, as name=10`,
		`command line: =3: expected key=value with a dotted key, as runner.max_epochs=10`,
		`job.yaml:4: run.max_epochs: many: expected a whole number`,
		`command line: run.rate: 1e99: expected a number`,
		`job.yaml:6: run.level: 128: expected a whole number`,
		`job.yaml:7: run.seed: -1: expected a whole number ≥ 0`,
		`job.yaml:8: run.fast: 1: expected true or false`,
		`job.yaml:9: run.max_time: 90: expected a duration, as 90s, 1h30m or 01:30:00`,
		`job.yaml:10: run.group_sice: unknown key, did you mean group_size?`,
		`command line: run.max_epoch: unknown key, did you mean max_epochs?`,
		`job.yaml:11: sizes: 3: expected a list`,
		`job.yaml:12: limits.a: 1.5: expected a whole number`,
		`job.yaml:14: model.hidden.1: x: expected a whole number`,
		`job.yaml:15: model.max_epochs: unknown key, did you mean run.max_epochs?`,
		`command line: model.dim: .nan: expected a whole number`,
		`job.yaml:16: zzz: unknown key`,
		`job.yaml:17: places.a: nowhere: expected a place`,
		`job.yaml:17: places.b.count: x: expected a whole number`,
		`job.yaml:17: places.b.size: unknown key`,
		`job.yaml:18: words: a map: expected a list, or words with commas between them`,
		`job.yaml:19: run2: unknown key, did you mean run?`,
	)
}

func TestNullWhereADefaultStands(t *testing.T) {
	_, errs := load(t, "run: {max_epochs: null, seed: null}")
	want(t, errs, "job.yaml:1: run.max_epochs: null: expected a value; without the key it is 3")
}

func TestNotANumber(t *testing.T) {
	_, errs := load(t, "run: {rate: .nan}")
	want(t, errs, "job.yaml:1: run.rate: .nan: expected a number")
}

func TestBadFiles(t *testing.T) {
	dir := write(t, "empty.yaml", "", "blank.yaml", "# nothing\n", "null.yaml", "null\n", "binary.yaml", "a: \x00\x01",
		"latin.yaml", "a: \xff",
		"open.yaml", "a: 1\nb: [1, 2\nc: 3\n", "tab.yaml", "a:\n\tb: 1\n", "colon.yaml", "a: 1\nb: c: d\n",
		"anchor.yaml", "a: *b\n",
		"list.yaml", "\n- 1\n", "word.yaml", "hello\n", "two.yaml", "a: 1\n---\nb: 1\n", "folder/x.yaml", "a: 1",
		"itself.yaml", "a: &a\n  b: *a\n", "laugh.yaml", laugh(), "huge.yaml", strings.Repeat("#", 5<<20), "utf16.yaml",
		"\xff\xfea\x00")
	for file, text := range map[string]string{
		"missing.yaml": "missing.yaml: no such file",
		"folder":       "folder: is a folder, expected a YAML file",
		"empty.yaml":   "empty.yaml: empty, expected a YAML map of settings",
		"blank.yaml":   "blank.yaml: empty, expected a YAML map of settings",
		"null.yaml":    "null.yaml: empty, expected a YAML map of settings",
		"binary.yaml":  "binary.yaml: not a configuration: binary, expected YAML text in UTF-8",
		"latin.yaml":   "latin.yaml: not a configuration: binary, expected YAML text in UTF-8",
		"utf16.yaml":   "utf16.yaml: not a configuration: binary, expected YAML text in UTF-8",
		"huge.yaml":    "huge.yaml: not a configuration: larger than 4 MiB",
		"open.yaml":    "open.yaml:2: not valid YAML: did not find expected ',' or ']'",
		"tab.yaml":     "tab.yaml:2: not valid YAML: found character that cannot start any token",
		"colon.yaml":   "colon.yaml:2: not valid YAML: mapping values are not allowed in this context",
		"anchor.yaml":  "anchor.yaml: not valid YAML: unknown anchor 'b' referenced",
		"list.yaml":    "list.yaml:2: expected a YAML map of settings, got a list",
		"word.yaml":    "word.yaml:1: expected a YAML map of settings, got hello",
		"two.yaml":     "two.yaml:2: not valid YAML: a second document begins, expected only one",
		"itself.yaml":  "itself.yaml:1: too large or nested too deeply (an alias that holds itself?)",
		"laugh.yaml":   "laugh.yaml:1: too large or nested too deeply (an alias that holds itself?)",
	} {
		tree, err := Load(filepath.Join(dir, file), nil, Options{})
		want(t, lines(err, dir), text)
		if len(FieldErrors(err)) != 1 || tree != nil {
			t.Errorf("%s: tree %v, error %#v, want a FieldError alone", file, tree, err)
		}
	}
}

// laugh has nine levels of ten aliases each: a billion values.
func laugh() string {
	s := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		below := fmt.Sprintf("*a%d", i)
		s += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, below+strings.Repeat(", "+below, 9))
	}
	return s
}

func TestGivenTwice(t *testing.T) {
	cfg, errs := load(t, "run:\n  max_epochs: 1\n  max_epochs: 2\n")
	want(t, errs, "job.yaml:3: run.max_epochs: given twice, first at job.yaml:2")
	if cfg.Run.Epochs != 1 {
		t.Errorf("max_epochs %d, want the first", cfg.Run.Epochs)
	}
}

func TestMergeKeys(t *testing.T) {
	cfg, errs := load(t,
		"any: {x: &x {max_epochs: 1, rate: 1}, y: &y {seed: 4, rate: 2}}\nrun:\n  <<: [*x, *y]\n  max_epochs: 7\n")
	want(t, errs)
	if cfg.Run.Epochs != 7 || cfg.Run.Rate != 1 || cfg.Run.Seed != 4 {
		t.Errorf("got %+v", cfg.Run)
	}
}

func TestPresets(t *testing.T) {
	files := []string{
		"job.yaml", `
hydra: {run: {dir: .}, searchpath: ["file://${oc.env:RLINF_TEST_PRESETS}", "file://${oc.env:RLINF_TEST_NOT_SET}"]}
defaults:
  - run/above@_global_
  - base@model: large
  - common@_global_
  - run: long
  - optional gone@model
  - override hydra/job_logging: stdout
run: {max_epochs: 5}
model:
`,
		"run/above.yaml", "defaults: [../base/small@model]\n",
		"base/small.yaml", "dim: 1\nhidden: [1]\n",
		"base/large.yaml", "defaults: [_self_, deeper]\ndim: 2\n",
		"base/deeper.yaml", "dim: 3\n",
		"run/long.yaml", "max_epochs: 100\nrate: 0.25\n",
		"else/common.yaml", "name: common\n",
	}
	dir := write(t, files...)
	t.Setenv("RLINF_TEST_PRESETS", filepath.Join(dir, "else"))
	cfg := defaults()
	tree := test.Must(Load(filepath.Join(dir, "job.yaml"), []string{"model.hidden=[2]"}, Options{}))(t)
	want(t, lines(tree.Decode(&cfg).Err(), dir))
	expect := job{Name: "common", Run: run{Epochs: 5, Rate: 0.25, common: common{8}},
		Model: &model{Hidden: []int{2}, Dim: 3}}
	if !reflect.DeepEqual(cfg, expect) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", cfg, cfg.Model, expect, expect.Model)
	}
	for key, origin := range map[string]string{
		"run.max_epochs": "job.yaml:10", "run.rate": "run/long.yaml:2", "model.dim": "base/deeper.yaml:1",
		"model.hidden": "command line", "sizes": "job.yaml",
	} {
		if got := strings.TrimPrefix(tree.origin(key), dir+"/"); got != origin {
			t.Errorf("%s comes from %s, want %s", key, got, origin)
		}
	}
}

func TestBadPresets(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"defaults: [base/smal@model]",
			"job.yaml:1: defaults: base/smal: no such preset, looked for base/smal.yaml, presets/base/smal.yaml"},
		{"defaults: [no@model]\nhydra: {searchpath: ['file://${oc.env:RLINF_TEST_NOT_SET}/x']}",
			"job.yaml:1: defaults: no: no such preset, looked for no.yaml, presets/no.yaml; hydra.searchpath names " +
				"file://${oc.env:RLINF_TEST_NOT_SET}/x, too, whose variable is not set"},
		{"defaults: base", "job.yaml:1: defaults: base: expected a list of presets, as env/cartpole@env.train"},
		{"defaults: [7]", "job.yaml:1: defaults: 7: expected a preset, as env/cartpole@env.train"},
		{"defaults: [round@model]",
			"other.yaml:1: defaults: round: includes itself: job.yaml → round.yaml → other.yaml → round.yaml"},
		{"defaults: [empty]", "empty.yaml: empty, expected a YAML map of settings"},
	} {
		dir := write(t, "job.yaml", tc.text, "round.yaml", "defaults: [other]", "other.yaml", "defaults: [round]",
			"empty.yaml", "")
		tree, err := Load(filepath.Join(dir, "job.yaml"), nil,
			Options{SearchPath: []string{filepath.Join(dir, "presets")}})
		if err == nil {
			cfg := defaults()
			err = tree.Decode(&cfg).Err()
		}
		want(t, lines(err, dir), tc.want)
	}
}

func TestOverrides(t *testing.T) {
	cfg, errs := load(t, "name: x\nrun: {rate: 1, seed: 5, max_epochs: 9}\nsizes: [1, 2]\nany: [{a: 1}]\n",
		"run.rate=2", "+run.group_size=4", "++run.fast=true", "~run.seed", "~run.max_epochs=9", "sizes.1=7",
		"limits.a=1", `limits={"b.c": 2}`, "any.0.a='3 = 3'", "name=a:b #c", "model={hidden: [1, 2]}", "model.dim = 3")
	want(t, errs)
	expect := job{
		Name: "a:b #c", Run: run{Epochs: 3, Rate: 2, Fast: true, common: common{4}}, Sizes: []int{1, 7},
		Limits: map[string]int{"a": 1, "b.c": 2}, Any: []any{map[string]any{"a": "3 = 3"}},
		Model: &model{[]int{1, 2}, 3},
	}
	if !reflect.DeepEqual(cfg, expect) {
		t.Errorf("got  %+v %+v\nwant %+v %+v", cfg, cfg.Model, expect, expect.Model)
	}
}

func TestBadOverrides(t *testing.T) {
	for _, tc := range []struct{ override, want string }{
		{"run.rate", "command line: run.rate: expected a value, as run.rate=10"},
		{"run..rate=1", "command line: run..rate=1: expected key=value with a dotted key, as runner.max_epochs=10"},
		{"", `command line: "": expected key=value with a dotted key, as runner.max_epochs=10`},
		{"+run.rate=1", "command line: run.rate: 1: already given at job.yaml:1; leave out the + to replace it"},
		{"~run.seed", "command line: run.seed: cannot be removed: it was not given"},
		{"~run.rate=2", "command line: run.rate: 1: not removed: its value is not 2"},
		{"+~run.rate=2", "command line: +~run.rate=2: expected key=value, +key=value, ++key=value or ~key"},
		{"sizes=[1,", "command line: sizes: [1,: not a value: line 1: did not find expected node content"},
		{"sizes=[1] 2", "command line: sizes: [1] 2: not a value: did not find expected <document start>"},
		{"run={a: 1, a: 2}", "command line: run: given twice, first at command line"},
		{"sizes.5=1", "command line: sizes: a map: expected a list"},
	} {
		_, errs := load(t, "run: {rate: 1}\nsizes: [1]", tc.override)
		want(t, errs, tc.want)
	}
}

func TestInterpolation(t *testing.T) {
	t.Setenv("RLINF_TEST_N", "42")
	_, errs := load(t, `
name: ${..name_of}-${any.text}\${x}-${any.text}
run: {max_epochs: "${oc.env:RLINF_TEST_N}", rate: "${multiply:${.max_epochs},0.5}", fast: "${not:${any.off}}", group_size: "${int_div:-7,2}"}
sizes: ["${multiply:3,4}", "${subtract:${sizes[0]},1}"]
limits: ${any.map}
any: {text: a b, off: false, map: {one: "${any.one}"}, one: 1, key: one, again: "${any.${any.key}}", "n": "${oc.env:RLINF_TEST_NOT_SET,null}", q: "${oc.env:RLINF_TEST_NOT_SET, 'a,b'}",
  model: "${model}"}
`)
	want(t, errs, `job.yaml:2: name: ${..name_of}-${any.text}\${x}-${any.text}: ${..name_of} goes above the root`,
		`job.yaml:7: any.model: ${model}: ${model}: no such key`)
	cfg, errs := load(t, strings.NewReplacer("${..name_of}", "${.name_of}", `, "n"`, `, name_of: [], "n"`).Replace(
		"name: ${.any.one}-${any.text}\\${x}\n"+`
run: {max_epochs: "${oc.env:RLINF_TEST_N}", rate: "${multiply:${.max_epochs},0.5}", fast: "${not:${any.off}}", group_size: "${int_div:-7,2}"}
sizes: ["${multiply:3,4}", "${subtract:${sizes[0]},1}"]
limits: ${any.map}
any: {text: a b, off: false, map: {one: "${...any.one}"}, one: 1, key: one, again: "${any.${any.key}}", "n": "${oc.env:RLINF_TEST_NOT_SET,null}", q: "${oc.env:RLINF_TEST_NOT_SET, 'a,b'}"}
`))
	want(t, errs)
	expect := job{
		Name: "1-a b${x}", Run: run{Epochs: 42, Rate: 21, Fast: true, common: common{-4}}, Sizes: []int{12, 11},
		Limits: map[string]int{"one": 1},
		Any: map[string]any{"text": "a b", "off": false, "map": map[string]any{"one": 1}, "one": 1, "key": "one",
			"again": 1, "name_of": []any{}, "n": nil, "q": "a,b"},
	}
	if !reflect.DeepEqual(cfg, expect) {
		t.Errorf("got  %+v\nwant %+v", cfg, expect)
	}
}

func TestBadInterpolation(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"name: ${any.x}", "job.yaml:1: name: ${any.x}: ${any.x}: no such key"},
		{"name: ${any", "job.yaml:1: name: ${any: ${ without }"},
		{"name: ${any}\nany: ${name}", "job.yaml:1: name: ${any}: circular interpolations: name → any → " +
			"name\njob.yaml:2: any: ${name}: circular interpolations: any → name → any"},
		{"any: {a: '${any}'}", "job.yaml:1: any.a: ${any}: circular interpolations: any.a → any.a"},
		{"any: [1]\nname: x${any}", "job.yaml:2: name: x${any}: ${any} is a list, which cannot be pasted into text"},
		{"name: ${oc.env:RLINF_TEST_NOT_SET}",
			"job.yaml:1: name: ${oc.env:RLINF_TEST_NOT_SET}: environment variable RLINF_TEST_NOT_SET is not set"},
		{"name: ${add:1,2}", `job.yaml:1: name: ${add:1,2}: no resolver "add", expected oc.env, oc.select, ` +
			`oc.decode, multiply, int_div, subtract, not or torch.dtype`},
		{"name: ${multiply:1}", "job.yaml:1: name: ${multiply:1}: multiply: 1 arguments, expected 2"},
		{"name: ${multiply:1,x}", "job.yaml:1: name: ${multiply:1,x}: multiply: expected two numbers, got 1 and x"},
		{"name: ${int_div:1,0}", "job.yaml:1: name: ${int_div:1,0}: int_div: 1 by 0"},
		{"name: ${multiply:9007199254740993,9007199254740993}", "job.yaml:1: name: " +
			"${multiply:9007199254740993,9007199254740993}: multiply: the result 8.112963841460668e+31 is too large"},
		{"name: ${not:3}", "job.yaml:1: name: ${not:3}: not: 3 is neither true nor false"},
	} {
		_, errs := load(t, tc.text)
		want(t, errs, strings.Split(tc.want, "\n")...)
	}
}

// An error about a value from an interpolation names the line with the interpolation.
func TestInterpolationKeepsItsOrigin(t *testing.T) {
	_, errs := load(t, "name: word\nrun:\n  rate: ${name}\n")
	want(t, errs, "job.yaml:3: run.rate: word: expected a number")
}

// Interpolations that double a text again and again end in an error.
func TestInterpolationBudgets(t *testing.T) {
	var text, maps, chain string
	for i := range 20 {
		text += fmt.Sprintf("  t%d: ${any.t%d}${any.t%d}\n", i+1, i, i)
		maps += fmt.Sprintf("  m%d: {x: '${any.m%d}', y: '${any.m%d}'}\n", i+1, i, i)
	}
	for i := range 100 {
		chain += fmt.Sprintf("  c%d: ${any.c%d}\n", i, i+1)
	}
	for _, tc := range []struct{ text, want string }{
		{"any:\n  t0: x\n" + text, "the value is longer than 65536 bytes"},
		{"any:\n  m0: x\n" + maps, "interpolations copy more than 200000 values"},
		{"any:\n" + chain + "  c100: x\n", "interpolations nested too deeply"},
		{"any: " + strings.Repeat("${", 1000) + strings.Repeat("}", 1000), "interpolations nested too deeply"},
		{"any: " + strings.Repeat("${", 50000) + "\n", "an interpolation longer than 65536 bytes"},
	} {
		if _, errs := load(t, tc.text); !strings.Contains(strings.Join(errs, "\n"), tc.want) {
			t.Errorf("got %.300v, want %s", errs, tc.want)
		}
	}
}

// A ${ that was escaped is not interpolated, even after copies.
func TestEscapedStaysEscaped(t *testing.T) {
	cfg, errs := load(t, `limits: {}
any: {a: {b: '\${x}'}, c: "${any.a}", d: "${any.c.b}"}`)
	want(t, errs)
	m := map[string]any{"b": "${x}"}
	if expect := (map[string]any{"a": m, "c": m, "d": "${x}"}); !reflect.DeepEqual(cfg.Any, expect) {
		t.Errorf("got %v, want %v", cfg.Any, expect)
	}
}

func TestInterpolationSeesDefaults(t *testing.T) {
	cfg, errs := loadWith(t, Options{Defaults: defaults()}, nil, "job.yaml", "name: ${run.group_size}\n")
	want(t, errs)
	if cfg.Name != "8" {
		t.Errorf("name %q, want the default group size, 8", cfg.Name)
	}
}

func TestAliases(t *testing.T) {
	options := Options{Aliases: []Alias{
		{Old: "old.epochs", New: []string{"run.max_epochs"}},
		{Old: "old.slow", New: []string{"run.fast"}, Value: "${not:%s}"},
		{Old: "dims", New: []string{"model.dim", "limits.dim"}},
		{Old: "both", New: []string{"any", "limits"}},
	}}
	dir := write(t, "job.yaml", "defaults: [p@old]\nold: {slow: true}\ndims: 4\nname: ${old.epochs}\n", "p.yaml",
		"epochs: 5\n")
	cfg := defaults()
	tree, err := Load(filepath.Join(dir, "job.yaml"), []string{"old.epochs=6", "both={a: 1}", "limits.a=2"}, options)
	test.OK(t, err)
	check := tree.Decode(&cfg)
	want(t, lines(check.Err(), dir))
	if cfg.Run.Epochs != 6 || cfg.Run.Fast || cfg.Model.Dim != 4 || cfg.Limits["dim"] != 4 || cfg.Name != "6" {
		t.Errorf("got %+v %+v", cfg, cfg.Model)
	}
	if one, other := cfg.Any, cfg.Limits["a"]; !reflect.DeepEqual(one, map[string]any{"a": 1}) || other != 2 {
		t.Errorf("both: %v and %v, want values apart", one, other)
	}
	want(t, strings.Split(strings.ReplaceAll(strings.Join(check.Warnings(), "\n"), dir+"/", ""), "\n"),
		"p.yaml:1: old.epochs is an old name, today it is run.max_epochs",
		"job.yaml:2: old.slow is an old name, today it is run.fast",
		"job.yaml:3: dims is an old name, today it is model.dim and limits.dim",
		"command line: old.epochs is an old name, today it is run.max_epochs",
		"command line: both is an old name, today it is any and limits",
	)

	dir = write(t, "job.yaml", "old: {epochs: 3}\nrun: {max_epochs: 4}\n")
	if tree, err = Load(filepath.Join(dir, "job.yaml"), nil, options); err != nil {
		t.Fatal(err)
	}
	check = tree.Decode(&cfg)
	want(t, lines(check.Err(), dir))
	if cfg.Run.Epochs != 4 {
		t.Errorf("max_epochs %d, want 4, as today's name says", cfg.Run.Epochs)
	}
	want(t, []string{strings.ReplaceAll(check.Warnings()[0], dir+"/", "")},
		"job.yaml:1: old.epochs is an old name, today it is run.max_epochs; run.max_epochs is given too, and counts")
}

func TestKnownKeys(t *testing.T) {
	options := Options{Known: []Known{{Key: "run.*.queue"}, {Key: "actor.fsdp.**", Idle: []string{"no_shard"}},
		{Key: "run.offload"}, {Key: "video.**", Switch: "on"}, {Key: "film.**", Switch: "on"}}}
	text := `
run: {a: {queue: 0}, b: {queue: 3}, offload: false}
actor:
  fsdp: {strategy: no_shard, sizes: [], deep: {x: "", y: 1}}
  fsdq: 1
run2: {}
video: {on: false, rate: 3}
film: {rate: 3}
`
	dir := write(t, "job.yaml", text)
	for _, strict := range []bool{false, true} {
		tree := test.Must(Load(filepath.Join(dir, "job.yaml"), nil, options))(t)
		cfg := defaults()
		check := tree.Decode(&cfg)
		unknown := []string{"job.yaml:5: actor.fsdq: unknown key", "job.yaml:6: run2: unknown key, did you mean run?"}
		if strict {
			check.Strict()
			want(t, lines(check.Err(), dir), append(unknown,
				"job.yaml:2: run.b.queue: 3: known, but without effect here",
				"job.yaml:4: actor.fsdp.deep.y: 1: known, but without effect here")...)
			want(t, check.Warnings())
			continue
		}
		want(t, lines(check.Err(), dir), unknown...)
		want(t, strings.Split(strings.ReplaceAll(strings.Join(check.Warnings(), "\n"), dir+"/", ""), "\n"),
			"keys without effect here", "  these change speed, memory or what is written:",
			"    actor.fsdp.deep.y  1  job.yaml:4", "    run.b.queue        3  job.yaml:2")
	}
}

func TestCheck(t *testing.T) {
	dir := write(t, "job.yaml", "run:\n  max_epochs: 0\n  rate: x\n")
	cfg := defaults()
	tree := test.Must(Load(filepath.Join(dir, "job.yaml"), []string{"name="}, Options{}))(t)
	check := tree.Decode(&cfg)
	at := check.At("run")
	at.Want(cfg.Run.Epochs > 0, "max_epochs", cfg.Run.Epochs, "a number > 0")
	at.Want(false, "rate", cfg.Run.Rate, "nothing that a second report would say")
	at.Want(false, "group_size", cfg.Run.Group, "a multiple of 3")
	at.Want(false, "seed", cfg.Run.Seed, "a number > 0")
	at.Want(true, "fast", cfg.Run.Fast, "true")
	check.Want(cfg.Name != "", "name", cfg.Name, "a word")
	want(t, lines(check.Err(), dir),
		"job.yaml:3: run.rate: x: expected a number",
		"job.yaml:2: run.max_epochs: 0: expected a number > 0",
		"job.yaml:1: run.group_size: 8 (the default): expected a multiple of 3",
		"job.yaml:1: run.seed: not set: expected a number > 0",
		`command line: name: "": expected a word`,
	)
	test.Equal(t, len(FieldErrors(fmt.Errorf("wrapped: %w", check.Err()))), 5, "FieldErrors")
}

func TestMarshalAndReadAgain(t *testing.T) {
	cfg := job{
		Name: "${x} \\${y} é", Run: run{-1, 3e-4, 1<<64 - 1, true, 90 * time.Minute, "ON", 1, common{3}},
		Sizes: []int{1}, Limits: map[string]int{"a.b": 3, "${k}": 4},
		Any: []any{"1", 1, nil}, Model: &model{Hidden: []int{}},
		Places: Map[place]{{"z", place{"here", 1}}, {"a", place{}}}, Words: Words{"a", "1"},
	}
	text := test.Must(Marshal(cfg))(t)
	again, errs := load(t, string(text))
	want(t, errs)
	if !reflect.DeepEqual(cfg, again) {
		t.Errorf("%s\ngot  %+v\nwant %+v", text, again, cfg)
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "01:30:00": 90 * time.Minute,
		"100:00:01": 100*time.Hour + time.Second, "0": 0, "00:00:00": 0,
	} {
		if got, err := parseDuration(text); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "90", "1:60:00", "1:00", "-1:00:00", "3000000:00:00",
		"99999999999999999999:00:00", "1 h"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"clip_ratio_high", "clip_ratio_low", "gamma", "lr"}
	for key, want := range map[string]string{"clip_ratoi_high": "clip_ratio_high", "gama": "gamma", "lr": "lr",
		"rl": "lr", "beta": "", "x": "", "clipratiolow": "clip_ratio_low"} {
		test.Equal(t, Nearest(key, keys), want, "%s", key)
	}
}

// FuzzLoad: with any file and any override, loading ends without a panic, in a tree or a FieldError.
func FuzzLoad(f *testing.F) {
	f.Add("name: ${run.max_epochs}\nrun: {max_epochs: 1}\n", "run.rate=2")
	f.Add("defaults: [_self_, a@b]\n<<: {a: 1}\n", "~name")
	f.Add(laugh(), "+limits={a: 1}")
	f.Add("any: &a [*a, ${any}]\n? [a]\n: 1", "sizes.0=[${sizes}]")
	f.Fuzz(func(t *testing.T, text, override string) {
		cfg, errs := loadWith(t, Options{
			Aliases: []Alias{{Old: "old", New: []string{"run.max_epochs"}},
				{Old: "name.old", New: []string{"name"}, Value: "${not:%s}"}},
			Known: []Known{{Key: "known.**"}},
		}, []string{override}, "job.yaml", text)
		if errs != nil {
			return
		}
		data := test.Must(Marshal(cfg))(t)
		again, errs := load(t, string(data))
		if errs != nil {
			t.Fatalf("%s\nread again: %v", data, errs)
		}
		if second, err := Marshal(again); err != nil || string(second) != string(data) {
			t.Fatalf("read and written again: %v\n%s\nwant\n%s", err, second, data)
		}
	})
}

// shares is a type that takes names with weights.
type shares map[string]float64

func (s *shares) AddWeight(name string, weight float64) {
	if *s == nil {
		*s = shares{}
	}
	(*s)[name] = weight
}

// TestWeights: names with weights are a map, or a list or a text of names. Another value is a mistake. Marshal writes
// what Load reads back.
func TestWeights(t *testing.T) {
	type cfg struct {
		Mix shares `yaml:"mix,omitempty"`
	}
	for text, want := range map[string]shares{
		"mix: {b: 2, a: 0.5}": {"a": 0.5, "b": 2}, "mix: [a, b]": {"a": 1, "b": 1}, "mix: a, b": {"a": 1, "b": 1},
		"mix: null": nil, "{}": nil,
	} {
		var got, again cfg
		tree, err := Parse("c.yaml", []byte(text), Options{})
		test.OK(t, err)
		if err := tree.Decode(&got).Err(); err != nil || !reflect.DeepEqual(got.Mix, want) {
			t.Errorf("%s: %v, %v, want %v", text, got.Mix, err, want)
		}
		written := test.Must(Marshal(&got))(t)
		if tree, err = Parse("c.yaml", written, Options{}); err != nil {
			t.Fatal(err)
		}
		if err := tree.Decode(&again).Err(); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s: written as %s, read as %v, %v", text, written, again, err)
		}
	}
	tree := test.Must(Parse("c.yaml", []byte("mix: {a: much}"), Options{}))(t)
	if err := tree.Decode(new(cfg)).Err(); err == nil ||
		!strings.Contains(err.Error(), "mix.a: much: expected a number") {
		t.Errorf("a weight that is no number: %v", err)
	}
}
