// Command scaling draws curves of weak and strong scaling on emulated ranks. scripts/scaling runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rlinf/rlinf/roles/emulate"
	"github.com/rlinf/rlinf/spmd/local"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "scaling: %v\n", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

var errUsage = errors.New("see -help")

// A keys collects the configuration overrides of the flag -set.
type keys []string

func (k *keys) String() string { return strings.Join(*k, " ") }

func (k *keys) Set(s string) error {
	*k = append(*k, s)
	return nil
}

// list parses a comma-separated list.
func list[T any](text string, read func(string) (T, error)) ([]T, error) {
	var all []T
	for s := range strings.SplitSeq(text, ",") {
		x, err := read(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("%q: expected numbers between commas: %w", text, errUsage)
		}
		all = append(all, x)
	}
	return all, nil
}

func run(args []string, out io.Writer) error {
	f := flag.NewFlagSet("scaling", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var overrides keys
	ranks := f.String("ranks", "8,32,128", "numbers of ranks; curves are relative to the first")
	beyond := f.String("beyond", "", "numbers of ranks that are only predicted, as 1024,4096")
	skews := f.String("skew", "0,0.3", "deviations of the logarithm of a step's duration")
	weak := f.Int("weak", 4, "environments of each rank in weak scaling; 0: no weak scaling")
	strong := f.Int("strong", 512, "environments of all ranks in strong scaling; 0: no strong scaling")
	iterations := f.Int("iterations", 10, "iterations of each run that count")
	warmup := f.Int("warmup", 2, "iterations before them")
	steps := f.Int("steps", 32, "time steps of an iteration")
	minibatches := f.Int("minibatches", 4, "optimiser steps of an iteration")
	params := f.Int("params", 70_000, "parameters of the policy")
	shrink := f.Int("shrink", 8, "divide the parameters, and multiply the time of each byte")
	perNode := f.Int("node", 8, "ranks of a node")
	latency := f.Duration("latency", 50*time.Microsecond, "latency between nodes")
	rate := f.Float64("rate", 10e9, "bytes per second between nodes")
	step := f.Duration("step", time.Millisecond, "a step of a rank's environments")
	stepRow := f.Duration("step-row", 0, "and for each environment")
	infer := f.Duration("infer", 200*time.Microsecond, "a choice of actions")
	inferRow := f.Duration("infer-row", 20*time.Microsecond, "and for each environment")
	update := f.Duration("update", time.Millisecond, "forward and backward pass of a minibatch")
	updateRow := f.Duration("update-row", 50*time.Microsecond, "and for each time step of a rank")
	stretch := f.Float64("stretch", 0, "factor on all waits and links; 0: chosen")
	fit := f.Int("fit", 32, "fit the prediction on runs with at most this many ranks")
	seed := f.Uint64("seed", 1, "seed of the skew")
	folder := f.String("out", "", "folder for scaling.csv, scaling.json and scaling.svg; default: none")
	f.Var(&overrides, "set", "KEY=VALUE of the configuration; may be given several times")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(out)
			f.PrintDefaults()
			return nil
		}
		return fmt.Errorf("%w: %w", err, errUsage)
	}
	s := emulate.Study{WeakEnvs: *weak, StrongEnvs: *strong, FitRanks: *fit}
	s.Setting = emulate.Setting{
		Topology: emulate.Topology{PerNode: *perNode,
			Between: local.Link{Latency: *latency, BytesPerSecond: *rate}},
		Load: emulate.Load{Steps: *steps, Minibatches: *minibatches, Params: *params, Shrink: *shrink,
			Step: emulate.CallTime{Call: *step, Row: *stepRow}, Infer: emulate.CallTime{Call: *infer, Row: *inferRow},
			Update: emulate.CallTime{Call: *update, Row: *updateRow}},
		Iterations: *iterations, Warmup: *warmup, Stretch: *stretch, Seed: *seed, Keys: overrides,
	}
	var err error
	if s.Ranks, err = list(*ranks, strconv.Atoi); err != nil {
		return err
	}
	if *beyond != "" {
		if s.Beyond, err = list(*beyond, strconv.Atoi); err != nil {
			return err
		}
	}
	parse := func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }
	if s.Skews, err = list(*skews, parse); err != nil {
		return err
	}
	began := time.Now()
	points, err := s.Curves(context.Background(), func(p emulate.StudyPoint) {
		fmt.Fprintf(os.Stderr, "%s, skew %g, %d ranks: %.1f ms, stretch %g, real work %.0f %%, waits %.1f %% late, "+
			"%v so far\n", p.Kind, p.Skew, p.Ranks, 1e3*p.Seconds, p.Stretch, 100*p.RealWork, 100*p.Late,
			time.Since(began).Round(time.Second))
	})
	if err != nil {
		return err
	}
	show(out, points)
	return save(*folder, points)
}

// show prints the points as a table.
func show(out io.Writer, points []emulate.StudyPoint) {
	fmt.Fprintf(out, "%-7s %5s %6s %19s %11s %7s %22s %11s %8s %10s\n", "kind", "skew", "ranks", "iteration, ms",
		"predicted", "error", "efficiency", "predicted", "stretch", "real work")
	for _, p := range points {
		if p.Iterations == 0 {
			fmt.Fprintf(out, "%-7s %5g %6d %19s %11.1f %7s %22s %10.1f%%\n", p.Kind, p.Skew, p.Ranks, "",
				1e3*p.Predicted, "", "", 100*p.PredictedEfficiency)
			continue
		}
		note := ""
		switch {
		case p.Disturbed:
			note = " (disturbed)"
		case p.Fitted:
			note = " (fitted)"
		}
		fmt.Fprintf(out, "%-7s %5g %6d %19s %11.1f %6.1f%% %22s %10.1f%% %8g %9.0f%%%s\n", p.Kind, p.Skew, p.Ranks,
			fmt.Sprintf("%.1f [%.1f, %.1f]", 1e3*p.Seconds, 1e3*p.Low, 1e3*p.High), 1e3*p.Predicted, 100*p.Error(),
			fmt.Sprintf("%.1f%% [%.1f, %.1f]", 100*p.Efficiency, 100*p.EfficiencyLow, 100*p.EfficiencyHigh),
			100*p.PredictedEfficiency, p.Stretch, 100*p.RealWork, note)
	}
	if median, most := emulate.Errors(points); median == median {
		fmt.Fprintf(out, "error of predictions that were not fitted: median %.1f %%, largest %.1f %%\n", 100*median,
			100*most)
	}
}

// save writes the points and the picture into folder, unless folder is "".
func save(folder string, points []emulate.StudyPoint) error {
	if folder == "" {
		return nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{
		"scaling.csv":  func(w io.Writer) error { return emulate.WriteCSV(w, points) },
		"scaling.json": func(w io.Writer) error { return emulate.WriteJSON(w, points) },
		"scaling.svg": func(w io.Writer) error {
			_, err := w.Write(emulate.Picture(points))
			return err
		},
	} {
		if err := writeFile(filepath.Join(folder, name), write); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
