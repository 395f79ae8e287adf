// Package slurm holds the batch scripts of this folder, and writes them for other jobs than the
// ones that they name: Write changes the lines that say what to run and on what, and nothing else.
// So a script that is written is one that was tested.
package slurm

import (
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

//go:embed *.sbatch
var files embed.FS

// templates are the scripts, by the names that users give them.
var templates = [...]struct{ name, file string }{
	{"train", "train.sbatch"},
	{"requeue", "train-requeue.sbatch"},
	{"hetjob", "hetjob.sbatch"},
	{"sweep", "sweep.sbatch"},
	{"bench", "bench.sbatch"},
}

// Names returns the names of the scripts.
func Names() []string {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.name
	}
	return names
}

// A Job is what a script is written for.
type Job struct {
	// Name is the job's, for squeue and the name of its output. A script that runs no configuration
	// keeps its own.
	Name string
	// Time is the limit in Slurm's notation, as 04:00:00. Empty: the script's own.
	Time string
	// Partition, Account, Mem (the memory of each node, as 32G), QOS and Constraint are as Slurm
	// writes them, and the same for all parts. Empty: the script does not ask.
	Partition, Account, Mem, QOS, Constraint string
	// Options are further options of sbatch, as --exclusive, for all parts.
	Options []string
	// Modules are loaded before the job.
	Modules []string
	// Parts are the nodes: one part, or for hetjob two.
	Parts []Part
	// Config is the path of the configuration.
	Config string
	// Run is the name of the run, of which a sweep makes those of its runs.
	Run string
	// Overrides are the arguments that come after the configuration: key=value.
	Overrides []string
}

// A Part is a number of nodes that are alike.
type Part struct {
	Nodes        int
	TasksPerNode int
	CPUsPerTask  int
	GPUsPerNode  int // 0: none are asked for
}

// Script returns the script called name for j. It panics where Names has no such name, or the parts
// are not as many as the script has.
func Script(name string, j Job) string {
	text := read(name)
	if !strings.Contains(text, "\nCONFIG=") {
		j.Name = "" // what it does is not the run of that name
	}
	knobs := map[string]string{
		"CONFIG": "${CONFIG:-" + quote(j.Config) + "}", "NAME": "${NAME:-" + quote(j.Run) + "}",
		"OVERRIDES": "(" + quoteAll(j.Overrides) + ")",
	}
	var out strings.Builder
	part := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch option := option.FindStringSubmatch(line); {
		case line == "#SBATCH hetjob":
			part++
		case option != nil:
			line = j.Parts[part].option(j, option[1], line)
		default:
			if knob := knob.FindStringSubmatch(line); knob != nil && knobs[knob[1]] != "" {
				line = assign(knob[1], knobs[knob[1]], knob[2])
			}
		}
		if strings.HasPrefix(line, "set -") { // not behind it: modules may use variables that are not set
			for _, m := range j.Modules {
				out.WriteString("module load " + quote(m) + " || exit\n")
			}
		}
		out.WriteString(line)
		out.WriteByte('\n')
	}
	if part != len(j.Parts)-1 {
		panic(fmt.Sprintf("slurm: %s has %d parts, not %d", name, part+1, len(j.Parts)))
	}
	return out.String()
}

// Parts returns how many parts the script called name has.
func Parts(name string) int { return 1 + strings.Count(read(name), "\n#SBATCH hetjob\n") }

func read(name string) string {
	for _, t := range templates {
		if t.name == name {
			text, err := files.ReadFile(t.file)
			if err != nil {
				panic(err) // it is embedded
			}
			return string(text)
		}
	}
	panic(fmt.Sprintf("slurm: no script %q, only %q", name, Names()))
}

var (
	option = regexp.MustCompile(`^#SBATCH --([a-z-]+)=`)
	// A knob is a name, its value up to where a comment may begin, and that comment.
	knob = regexp.MustCompile(`^([A-Z]+)=(?:\$\{[^}]*\}|\([^)]*\))\s*(#.*)?$`)
)

// option returns the line of an option of sbatch with p's value, if it is one that p or j decides.
func (p Part) option(j Job, name, line string) string {
	value := ""
	switch name {
	case "job-name":
		value = jobName(j.Name)
	case "time":
		value = j.Time
	case "nodes":
		value = strconv.Itoa(p.Nodes)
	case "ntasks-per-node":
		value = strconv.Itoa(p.TasksPerNode)
	case "cpus-per-task":
		value = strconv.Itoa(p.CPUsPerTask)
		if p.GPUsPerNode > 0 {
			value += "\n#SBATCH --gpus-per-node=" + strconv.Itoa(p.GPUsPerNode)
		}
		for _, more := range [][2]string{{"partition", j.Partition}, {"account", j.Account}, {"mem", j.Mem},
			{"qos", j.QOS}, {"constraint", j.Constraint}} {
			if more[1] != "" {
				value += "\n#SBATCH --" + more[0] + "=" + more[1]
			}
		}
		for _, more := range j.Options {
			value += "\n#SBATCH " + more
		}
	}
	if value == "" {
		return line
	}
	return "#SBATCH --" + name + "=" + value
}

// jobName returns name as it can stand in the name of a file, and in a line of sbatch.
func jobName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_.,:=+-", r) {
			return r
		}
		return '-'
	}, name)
}

// assign returns an assignment with its comment, which begins where those of the scripts do.
func assign(name, value, comment string) string {
	const column = 49
	line := name + "=" + value
	if comment == "" {
		return line
	}
	return line + strings.Repeat(" ", max(1, column-len(line))) + comment
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_./=,:+@%-]+$`)

// quote returns a word as the shell must read it to get text.
func quote(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	return strings.Join(quoted, " ")
}
