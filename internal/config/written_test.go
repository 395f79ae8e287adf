package config

import (
	"reflect"
	"testing"
)

// TestLeadingZeros: leading zeros have no meaning on the command line. In files, which RLinf reads as octal, they are
// refused if the value would differ.
func TestLeadingZeros(t *testing.T) {
	t.Setenv("TASK", "012")
	cfg, errs := load(t, "run: {seed: '${oc.env:TASK}', level: '${run.max_epochs}', group_size: "+
		"'${multiply:2,${run.max_epochs}}'}\nname: 010\nwords: 08, 010\n",
		"run.max_epochs=010", "run.rate=08", "sizes=[007, 09, -010, +0_10]", "any=012", "+limits.a=064",
		"places={a: {count: 08}}")
	want(t, errs)
	if cfg.Run.Seed != 12 || cfg.Run.Epochs != 10 || cfg.Run.Level != 10 || cfg.Run.Group != 20 || cfg.Run.Rate != 8 ||
		cfg.Name != "010" ||
		!reflect.DeepEqual(cfg.Sizes, []int{7, 9, -10, 10}) || cfg.Any != 12 || cfg.Limits["a"] != 64 ||
		cfg.Places[0].Value.Count != 8 || !reflect.DeepEqual(cfg.Words, Words{"08", "010"}) {
		t.Errorf("got %+v", cfg)
	}

	cfg, errs = load(t, `
name: 007
run:
  max_epochs: 010
  rate: 08
  seed: 0x10
  level: -064
  group_size: ${multiply:010,2}
sizes: [1, 09, 07]
limits: {a: 0_17}
any: 010
`)
	want(t, errs,
		"job.yaml:4: run.max_epochs: 010: expected 10 or 8, without a leading zero: RLinf reads 010 as 8",
		"job.yaml:5: run.rate: 08: expected 8, without the leading zero: RLinf reads 08 as a text",
		"job.yaml:7: run.level: -064: expected -64 or -52, without a leading zero: RLinf reads -064 as -52",
		"job.yaml:8: run.group_size: ${multiply:010,2}: multiply: 010: expected 10 or 8, without a leading "+
			"zero: RLinf reads 010 as 8",
		"job.yaml:9: sizes.1: 09: expected 9, without the leading zero: RLinf reads 09 as a text",
		"job.yaml:10: limits.a: 0_17: expected 17 or 15, without a leading zero: RLinf reads 0_17 as 15",
		"job.yaml:11: any: 010: expected 10 or 8, without a leading zero: RLinf reads 010 as 8",
	)
	if cfg.Name != "007" || cfg.Run.Seed != 16 {
		t.Errorf("got %+v", cfg)
	}
}

// TestQuotes: a quoted number, truth value or null is a text. The message shows the quotes.
func TestQuotes(t *testing.T) {
	_, errs := load(t, `
run:
  max_epochs: "3"
  rate: '1e-4'
  seed: 'x'
  fast: 'True'
  level: '2.5'
  group_size: '010'
  max_time: '10'
limits: {a: 'null'}
sizes: '[1]'
name: '12'
`, `model.dim='4'`)
	want(t, errs,
		`job.yaml:3: run.max_epochs: "3": expected a whole number; drop the quotes: 3`,
		`job.yaml:4: run.rate: '1e-4': expected a number; drop the quotes: 1e-4`,
		`job.yaml:5: run.seed: x: expected a whole number ≥ 0`,
		`job.yaml:6: run.fast: 'True': expected true or false; drop the quotes: True`,
		`job.yaml:7: run.level: '2.5': expected a whole number; drop the quotes: 2.5`,
		`job.yaml:8: run.group_size: '010': expected a whole number; drop the quotes: 10`,
		`job.yaml:9: run.max_time: '10': expected a duration, as 90s, 1h30m or 01:30:00`,
		`job.yaml:10: limits.a: 'null': expected a whole number; drop the quotes: null`,
		`job.yaml:11: sizes: '[1]': expected a list; drop the quotes: [1]`,
		`command line: model.dim: '4': expected a whole number; drop the quotes: 4`,
	)
}
