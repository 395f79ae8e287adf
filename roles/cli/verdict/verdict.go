// Package verdict answers: does a configuration run, and which overrides would make it run? rlinf check prints the
// Verdict.
package verdict

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/roles/config"
)

// A Verdict is the result of Judge: whether a configuration runs, and what it lacks. The zero Verdict means that it
// runs.
type Verdict struct {
	// Policy names the unsupported features, such as "a VLA policy (openvla_oft)". It is "" if all are supported.
	Policy string
	// Simulator names the simulator to connect, such as "the simulator ManiSkill". It is "" if none is missing.
	Simulator string
	// Own has overrides that set the paths of missing files: the model and data of a language-model job.
	Own []string
	// Expert is true if the job needs an expert, which few simulators have.
	Expert bool
	// Idle is true if the placement has neither actors nor rollout workers.
	Idle bool
	// Overrides fix the mistakes, in the syntax of the command line.
	Overrides []string
	// Left has the mistakes that no override fixes.
	Left []*yaml.FieldError
}

// An Examiner loads the configuration with additional overrides, and returns it with its mistakes. If standIn is true,
// the simulator of StandIn replaces the missing simulator. The Config is nil if a file cannot be read.
type Examiner func(overrides []string, standIn bool) (*config.Config, error)

// standIn is the override that connects a missing simulator.
const standIn = "env.train.external.command=simulator"

// rounds is the maximum number of times that Judge adds remedies and examines the configuration again. A remedy may
// reveal another mistake.
const rounds = 5

// Judge returns the verdict on cfg. err has the mistakes of cfg, as returned by examine.
func Judge(cfg *config.Config, err error, examine Examiner) Verdict {
	var v Verdict
	if cfg == nil {
		v.Left = mistakes(err)
		return v
	}
	v.Simulator = simulator(cfg)
	lacks := cfg.ForeignFeatures()
	if kind := config.ForeignPolicy(cfg.Actor.Model.ModelType); kind != "" {
		lacks = append([]string{fmt.Sprintf("%s (%s)", kind, cfg.Actor.Model.ModelType)}, lacks...)
	}
	unknown := slices.ContainsFunc(mistakes(err), ofAlgorithm) // a program may have its own algorithm of this name
	algorithm := config.ForeignAlgorithm(cfg.Algorithm.AdvType, cfg.Algorithm.LossType)
	if unknown && algorithm != "" {
		lacks = append([]string{algorithm}, lacks...)
	}
	if v.Policy = strings.Join(lacks, " and "); v.Policy != "" {
		return v
	}
	if !cfg.Places("actor") && !cfg.Places("rollout") {
		v.Idle = true
		return v
	}
	missing, wrong := findAbsent(cfg)
	defer os.RemoveAll(missing.dir)
	if wrong != nil {
		v.Left = mistakes(errors.Join(err, wrong))
		return v
	}
	v.Own = missing.printed
	connected := missing.standIn
	if v.Simulator != "" {
		connected = append(connected, standIn)
	}
	if len(connected) > 0 {
		cfg, err = examine(connected, v.Simulator != "")
	}
	v.Left = mistakes(err)
	for range rounds {
		more := remedies(cfg, v.Left)
		more = slices.DeleteFunc(more, func(o string) bool { return slices.Contains(v.Overrides, o) })
		if len(more) == 0 {
			break
		}
		v.Overrides = append(slices.DeleteFunc(v.Overrides, func(o string) bool { // a later remedy replaces it
			key, _, _ := strings.Cut(o, "=")
			return slices.ContainsFunc(more, func(m string) bool { return strings.HasPrefix(m, key+"=") })
		}), more...)
		cfg, err = examine(append(slices.Clone(connected), v.Overrides...), v.Simulator != "")
		v.Left = slices.DeleteFunc(mistakes(err), func(e *yaml.FieldError) bool { // the user makes this file later
			file := e.Key + "=" + e.Value
			return (file == demos || file == classified || file == weights || e.Value == labelled) &&
				slices.Contains(v.Overrides, file)
		})
	}
	if algorithm != "" && slices.ContainsFunc(v.Left, ofAlgorithm) { // other mistakes have hidden it
		v.Policy, v.Own, v.Overrides = algorithm, nil, nil
		return v
	}
	v.Overrides = slices.DeleteFunc(v.Overrides, func(o string) bool { // remove overrides that did not help
		return slices.ContainsFunc(v.Left, func(e *yaml.FieldError) bool { return strings.HasPrefix(o, e.Key+"=") })
	})
	v.Expert = v.Simulator != "" && cfg.Algorithm.LossType == "embodied_dagger"
	return v
}

// ofAlgorithm reports whether e is a mistake about the name of the algorithm.
func ofAlgorithm(e *yaml.FieldError) bool {
	return e.Key == "algorithm.adv_type" || e.Key == "algorithm.loss_type"
}

// simulator returns the name of the RLinf simulator that cfg needs but does not connect, or "" if there is none.
func simulator(cfg *config.Config) string {
	if cfg.ReadsTexts() {
		return "" // a language model has no environments
	}
	for _, e := range []env.Config{cfg.Env.Train, cfg.Env.Eval} {
		if name := config.ForeignSimulator(e.EnvType); name != "" && e.External.IsZero() {
			return name
		}
	}
	return ""
}

// unlocated matches a mistake without an origin.
var unlocated = regexp.MustCompile(`(?s)^([a-z0-9_.]+): (\S+): (expected .*)$`)

// mistakes returns the mistakes in err.
func mistakes(err error) []*yaml.FieldError {
	all := yaml.FieldErrors(err)
	if err != nil && len(all) == 0 {
		e := &yaml.FieldError{Want: err.Error()}
		if m := unlocated.FindStringSubmatch(err.Error()); m != nil {
			e = &yaml.FieldError{Key: m[1], Value: m[2], Want: m[3]}
		}
		all = []*yaml.FieldError{e}
	}
	return all
}

// Headline returns the verdict in one line.
func (v Verdict) Headline() string {
	switch {
	case v.Policy != "" && v.Simulator != "":
		return fmt.Sprintf("needs %s and %s", v.Policy, v.Simulator)
	case v.Policy != "":
		return "needs " + v.Policy
	case v.Idle:
		return "does not train: it places neither actor nor rollout"
	case len(v.Left) > 0:
		return "does not run: " + v.change()
	case v.Expert:
		return fmt.Sprintf("needs %s with an expert: connect one with env_type=external", v.Simulator)
	case v.Simulator != "":
		return fmt.Sprintf("needs %s: connect it with env_type=external", v.Simulator)
	case len(v.Overrides)+len(v.Own) > 0:
		return "runs with these overrides"
	}
	return "runs"
}

// change names the keys that need other values. A mistake without a key cannot be fixed by an override.
func (v Verdict) change() string {
	var keys []string
	for _, e := range v.Left {
		switch {
		case e.Key == "" && len(v.Left) == 1:
			return "one mistake cannot be fixed by an override"
		case e.Key == "":
			return fmt.Sprintf("%d mistakes cannot be fixed by an override", len(v.Left))
		case !slices.Contains(keys, e.Key):
			keys = append(keys, e.Key)
		}
	}
	if len(keys) > 3 {
		return fmt.Sprintf("change %d keys", len(keys))
	}
	return "change " + strings.Join(keys, ", ")
}

// Text returns the headline, and the commands or changes that the job needs. path is the configuration file, and args
// has the other arguments of the command line.
func (v Verdict) Text(path string, args []string) string {
	lines := []string{"verdict: " + v.Headline()}
	add := func(line string) { lines = append(lines, "  "+line) }
	switch {
	case v.Policy != "" || v.Idle:
	case len(v.Left) > 0:
		if len(v.Overrides) > 0 {
			words := make([]string, len(v.Overrides))
			for i, o := range v.Overrides {
				words[i] = printable.Quote(o)
			}
			add("These overrides fix the others: " + strings.Join(words, " "))
		}
		// without stand-ins and overrides, the error of the command has these mistakes
		if v.Simulator != "" || len(v.Own)+len(v.Overrides) > 0 {
			for _, e := range v.Left {
				add(e.Error())
			}
		}
	case v.Simulator != "":
		connect := []string{"env.train.external.command=python3 simulator.py"}
		add(commandLine(path, args, append(connect, v.Overrides...)))
		add("simulator.py is a program of yours that steps it and speaks the bridge: clients/python/README.md,")
		add("docs/bridge.md. env.train.external.listen waits for one that was started elsewhere.")
		if v.Expert {
			add("It has an expert, which the algorithm asks: docs/experience.md.")
		}
	case len(v.Overrides)+len(v.Own) > 0:
		add(commandLine(path, args, append(slices.Clone(v.Own), v.Overrides...)))
	}
	if len(v.Own) > 0 && len(v.Left) == 0 {
		add("FOLDER is a model of Hugging Face on this machine, with its tokenizer; FILE has JSON lines:")
		add("docs/language-models.md. A relative path holds in the folder in which the job starts.")
	}
	if strings.Contains(strings.Join(v.Overrides, " "), "="+labelled) {
		add("FRAMES is a file of rlinf data frames: docs/success-from-images.md.")
	}
	if slices.Contains(v.Overrides, classified) {
		add("CLASSIFIER is a classifier of images, of a run of yours or of RLinf: docs/success-from-images.md.")
	}
	if slices.Contains(v.Overrides, weights) {
		add("RESNET10 is a folder with the weights of ResNet-10: docs/algorithms/sac.md. With")
		add("actor.model.encoder=nature_cnn in its place the policy needs none.")
	}
	if slices.Contains(v.Overrides, demos) {
		add("Demonstrations come from rlinf demos or from a program of yours: docs/demonstrations.md.")
	}
	return strings.Join(lines, "\n")
}

// commandLine returns the shell command that trains. For a key in both args and overrides, the value in overrides
// counts.
func commandLine(path string, args, overrides []string) string {
	words := []string{"rlinf", "-c", printable.Quote(path)}
	args = slices.DeleteFunc(slices.Clone(args), func(o string) bool {
		key, _, sets := strings.Cut(o, "=")
		return sets && slices.ContainsFunc(overrides, func(m string) bool { return strings.HasPrefix(m, key+"=") })
	})
	for _, o := range slices.Concat(args, overrides) {
		words = append(words, printable.Quote(o))
	}
	return strings.Join(words, " ")
}
